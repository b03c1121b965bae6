"""Finds the record that has an ID."""
