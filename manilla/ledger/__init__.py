"""The ledger: double-entry, append-only, in integer minor units."""
