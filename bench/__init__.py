"""Measures Manilla, as ratios within one run; see README.md."""
