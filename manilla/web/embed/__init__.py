"""Checkout in a shop's own page: the script that the shop loads from the platform."""
