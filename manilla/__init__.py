"""Manilla: a self-hosted merchant payments and payouts platform."""

__version__ = "0.19.0"
