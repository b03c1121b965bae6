"""The audit log of who changed what: append-only, hash-chained, written in the same transaction."""
