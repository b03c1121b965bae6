"""The three providers as a program of their own, for development, demonstrations and tests."""
