"""Commands that prove and archive the ledger."""
