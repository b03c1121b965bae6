"""Dashboard pages for merchants: transactions, wallets and configuration."""
