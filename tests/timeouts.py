"""How long tests wait. A deadline only ends a test that hangs: a busy machine must not reach it."""

from manilla.platform.changes import STALE_AFTER_SECONDS

TIMEOUT_SECONDS = 90

# After this time every running program has seen a change, or asks before it answers.
CHANGE_VISIBLE_SECONDS = STALE_AFTER_SECONDS + 0.1
