"""Simulates version 3 of Flutterwave's API.

Amounts are in naira. The secret key is sent as a `Bearer` token, and webhooks contain a shared
secret. A secret key that starts with `FLWSECK_TEST-` enables the sandbox's rules: a transfer stays
pending unless its reference ends in `_PMCK…`.
"""
