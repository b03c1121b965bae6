"""Commands about merchants' customers."""
