"""The log of merchants' API requests, and their rate limit."""
