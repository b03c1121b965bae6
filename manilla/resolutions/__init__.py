"""Resolves cases, and moves their money according to an administrator's decision."""
