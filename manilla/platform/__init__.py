"""Settings of the whole installation, and how processes notice changes."""
