"""Sends payouts and refunds to providers, and queries their status."""
