"""Settings of the whole installation, and how processes learn about changes."""
