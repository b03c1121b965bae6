"""The audit log: who changed what. Append-only, hash-chained, written with the change."""
