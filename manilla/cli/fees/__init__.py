"""Commands about what merchants pay, and about the taxes on it."""
