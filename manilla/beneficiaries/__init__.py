"""Beneficiaries: their fields, their banks, saved accounts, and the name check."""
