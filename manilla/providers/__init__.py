"""Providers: one interface with three implementations, whose answers are conclusive or unknown."""
