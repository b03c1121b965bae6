"""Database sessions: opens them, classifies their errors, and limits abandoned ones."""
