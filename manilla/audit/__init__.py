"""The audit log: append-only and hash-chained. Entries are written in the change's transaction."""
