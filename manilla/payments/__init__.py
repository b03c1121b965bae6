"""Payments: from a merchant's request until its wallet is credited."""
