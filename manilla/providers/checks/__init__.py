"""Checks of an account at a provider: each makes a harmless call and compares the answer."""
