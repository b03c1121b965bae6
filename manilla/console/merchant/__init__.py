"""Pages about one merchant: its dossier and its wallets."""
