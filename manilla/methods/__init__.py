"""Deposit and withdrawal methods, which administrators configure and merchants are offered."""
