"""What the company that runs Manilla decides for all of it, and how processes learn of changes."""
