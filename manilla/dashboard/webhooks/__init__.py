"""Pages for the merchant's webhook endpoints."""
