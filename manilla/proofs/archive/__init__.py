"""The archive: old months of the ledger and its transactions, as compressed files."""
