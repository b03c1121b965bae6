"""Paystack's API: amounts in kobo, `Bearer` secret key, a recipient before each transfer.

A secret key that starts with `sk_test_` enables the sandbox's rules: transfers succeed immediately.
"""
