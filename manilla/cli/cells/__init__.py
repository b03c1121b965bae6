"""Commands for cells."""
