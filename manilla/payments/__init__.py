"""Payments: from a merchant's request to money in its wallet."""
