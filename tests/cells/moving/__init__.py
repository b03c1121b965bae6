"""Moves a merchant between two cells under load, and kills processes: `make cells`."""
