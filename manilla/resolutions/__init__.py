"""Resolves cases and moves their money, as an administrator decides."""
