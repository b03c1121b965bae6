"""Compares providers' statements with our ledger, line by line."""
