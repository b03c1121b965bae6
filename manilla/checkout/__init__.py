"""Checkout: the pages on which a customer pays."""
