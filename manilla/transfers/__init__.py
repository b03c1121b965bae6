"""Sends payouts and refunds to providers, queries their status, and holds them."""
