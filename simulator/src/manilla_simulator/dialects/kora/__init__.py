"""Simulates Kora's API.

Amounts are in naira. The secret key is sent as a `Bearer` token, and a webhook's signature covers
`data`. A secret key that starts with `sk_test_` enables the sandbox's rules: some account numbers
force an outcome, and one-time accounts are paid automatically.
"""
