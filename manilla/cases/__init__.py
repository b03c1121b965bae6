"""Cases for administrators: opened, listed and closed."""
