"""Pages about the merchant's business: its profile and its verification."""
