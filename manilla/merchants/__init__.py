"""Merchants, their credentials and their wallets."""
