"""Deposit and withdrawal methods, which administrators configure, and which of them are offered."""
