"""Automatic rails: which provider sends a payout, and when it may move to another one."""
