"""Bulk payouts: a file with one payout per row, confirmed by a user and paid in order."""
