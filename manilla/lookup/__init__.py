"""Finds a record by its ID, and collects everything known about a payment or payout."""
