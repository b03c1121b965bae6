"""Flutterwave's API, version 3: naira, `Bearer` secret key, webhooks with a shared secret.

A secret key that starts with `FLWSECK_TEST-` enables the sandbox's rules: a transfer stays pending
unless its reference ends in `_PMCK…`.
"""
