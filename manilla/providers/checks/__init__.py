"""Checks of a provider account: each check makes a harmless call and evaluates the response."""
