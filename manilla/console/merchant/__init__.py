"""Pages about one merchant: its KYC dossier, API keys and wallets."""
