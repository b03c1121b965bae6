"""Resolves cases and moves the money that they are about, as an administrator decides."""
