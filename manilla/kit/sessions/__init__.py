"""Opens database sessions, classifies their errors, and limits the number of abandoned sessions."""
