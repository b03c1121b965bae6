"""Refunds: payments that a merchant pays back to customers from its wallet."""
