"""Timeouts that end a test which hangs. They are too long to be reached on a busy machine."""

TIMEOUT_SECONDS = 90
