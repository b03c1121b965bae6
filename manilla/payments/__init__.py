"""Payments: from a merchant's request to the credit to its wallet."""
