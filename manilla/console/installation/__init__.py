"""Pages about this installation and the other cells."""
