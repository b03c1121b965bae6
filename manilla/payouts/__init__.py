"""Payouts: transfers from a merchant's wallet to a beneficiary's bank account."""
