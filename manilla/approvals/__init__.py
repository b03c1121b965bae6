"""Changes that a second person must approve before they take effect."""
