"""Timeouts of the tests. They only end a test that hangs; a busy machine must not reach them."""

from manilla.platform.changes import STALE_AFTER_SECONDS

TIMEOUT_SECONDS = 90

# After this time every process has seen a change, or reloads it before it responds.
CHANGE_VISIBLE_SECONDS = STALE_AFTER_SECONDS + 0.1
