"""The benchmark's own programs, each measured in a separate process."""
