"""Pages of the merchant's webhook endpoints."""
