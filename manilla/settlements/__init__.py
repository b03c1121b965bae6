"""Automatic settlements: the merchant's balance, paid to its own account by a plan."""
