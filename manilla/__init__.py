"""Manilla: a self-hosted merchant payments and payouts platform."""

__version__ = "0.18.0"
