"""Timeouts that end a hanging test. They are too long to be reached on a busy machine."""

TIMEOUT_SECONDS = 90
