"""What is not the merchants' API: the front page, static files, health and metrics."""
