"""Checks all invariants of the ledger, every hour and on request."""
