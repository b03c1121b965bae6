"""Splits: a payment is divided between its merchant and other receivers."""
