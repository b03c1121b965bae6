"""Paystack's API: amounts in kobo, `Bearer` secret key, a recipient before each transfer.

A secret key that starts with `sk_test_` switches to the sandbox's rules: transfers succeed
immediately.
"""
