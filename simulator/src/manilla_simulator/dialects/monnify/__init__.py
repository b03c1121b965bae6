"""Monnify's API: naira, short-lived tokens, two calls for a one-time account.

An API key that starts with `MK_TEST_` switches to the sandbox's rules: webhooks are not signed, and
a transfer succeeds at once.
"""
