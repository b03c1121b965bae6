"""Changes that loosen safety: in production mode they wait for a second administrator."""
