"""Refunds: from a merchant's wallet back to the customer of a payment."""
