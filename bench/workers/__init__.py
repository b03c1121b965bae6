"""The bench's own programs, measured like the product, each in its own process."""
