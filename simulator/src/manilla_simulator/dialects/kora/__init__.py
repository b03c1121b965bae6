"""Kora's API: naira, `Bearer` secret key, webhooks signed over `data`.

A secret key that starts with `sk_test_` switches to the sandbox's rules: account numbers that force
an outcome, and one-time accounts that are paid by themselves.
"""
