"""Finds the record that has an ID, and everything known about a payment."""
