"""Simulates Monnify's API.

Amounts are in naira. Tokens are valid for a short time, and opening a one-time account needs two
calls. An API key that starts with `MK_TEST_` enables the sandbox's rules: webhooks are not signed,
and a transfer succeeds immediately.
"""
