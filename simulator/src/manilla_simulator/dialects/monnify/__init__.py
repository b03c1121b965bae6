"""Monnify's API: naira, short-lived tokens, two calls for a one-time account.

An API key that starts with `MK_TEST_` enables the sandbox's rules: webhooks are not signed, and a
transfer succeeds immediately.
"""
