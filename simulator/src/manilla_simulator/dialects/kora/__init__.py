"""Kora's API: naira, `Bearer` secret key, webhooks with a signature of `data`.

A secret key that starts with `sk_test_` enables the sandbox's rules: some account numbers force an
outcome, and one-time accounts are paid automatically.
"""
