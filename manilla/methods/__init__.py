"""Deposit and withdrawal methods, which administrators configure for merchants."""
