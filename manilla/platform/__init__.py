"""Settings of the whole installation, and how processes detect changes to them."""
