"""Measures the whole life of a transaction: from the request to the last delivery."""
