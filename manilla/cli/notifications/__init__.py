"""Commands for notifications and for verifying their signatures."""
