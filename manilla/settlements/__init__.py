"""Settlements: payouts of a merchant's balance to its own bank account, manual or scheduled."""
