"""Simulates Paystack's API.

Amounts are in kobo. The secret key is sent as a `Bearer` token, and a transfer needs a recipient
that was created before. A secret key that starts with `sk_test_` enables the sandbox's rules:
transfers succeed immediately.
"""
