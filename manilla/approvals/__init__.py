"""Changes that reduce safety need a second administrator in production mode."""
