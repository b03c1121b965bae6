"""The append-only, hash-chained audit log. An entry commits together with its change."""
