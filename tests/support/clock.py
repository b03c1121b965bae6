"""Moves the event loop's clock, so that tests of time limits are fast and have no races."""

import asyncio
import time

from tests.support import limits


class _Moved:
    seconds = 0.0


def advance(seconds: float) -> None:
    """Fires all timers of the event loop that are due within this time.

    Advance by less than `limits.LONG_SECONDS`. Otherwise other running tasks also reach their
    limits.
    """
    loop = asyncio.get_running_loop()
    loop.time = _moved_time  # type: ignore[method-assign]
    _Moved.seconds += seconds


def end_calls() -> None:
    """Times out all calls to providers and merchants' servers that are waiting for a response."""
    advance(limits.CALL_SECONDS)


def _moved_time() -> float:
    return time.monotonic() + _Moved.seconds
