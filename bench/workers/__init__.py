"""The benchmark's own programs, measured like Manilla, each in its own process."""
