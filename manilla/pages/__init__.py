"""Pages and endpoints outside the merchant API: front page, static files, health and metrics."""
