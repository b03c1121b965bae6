"""Timeouts that end a test which hangs. They are too long to be reached on a busy machine."""

from manilla.platform.changes import STALE_AFTER_SECONDS

TIMEOUT_SECONDS = 90

# After this time every process has seen a change to settings, or reloads it before it responds.
CHANGE_VISIBLE_SECONDS = STALE_AFTER_SECONDS + 0.1
