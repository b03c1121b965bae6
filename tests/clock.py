"""Moves the event loop's clock, so that a test of a time limit takes no time and races nobody."""

import asyncio
import time

from tests import limits


class _Moved:
    seconds = 0.0


def advance(seconds: float) -> None:
    """Fires all timers of the event loop that are due within this time.

    Move it by less than `limits.LONG_SECONDS`, or other tasks in progress also reach their limits.
    """
    loop = asyncio.get_running_loop()
    loop.time = _moved_time  # type: ignore[method-assign]
    _Moved.seconds += seconds


def end_calls() -> None:
    """Ends the calls to providers and to merchants' servers that wait for a response."""
    advance(limits.CALL_SECONDS)


def _moved_time() -> float:
    return time.monotonic() + _Moved.seconds
