"""Timeouts that end a hanging test. A working test does not reach them, even on a busy machine."""

TIMEOUT_SECONDS = 90
