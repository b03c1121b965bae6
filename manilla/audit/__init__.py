"""The append-only, hash-chained audit log. An entry is committed together with its change."""
