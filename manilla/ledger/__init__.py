"""The books: double entry in integer minor units, append-only."""
