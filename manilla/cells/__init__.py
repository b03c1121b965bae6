"""Cells: several complete installations, with the merchants divided among them."""
