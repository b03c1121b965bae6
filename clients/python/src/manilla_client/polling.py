"""The polling schedule for a final status. The wait doubles after each poll, up to a maximum."""

import time
from collections.abc import Iterator
from typing import Protocol, TypeVar

from manilla_client.errors import StillPending

FIRST_WAIT_SECONDS, WAIT_SECONDS_MAX = 0.5, 10.0


class Verified(Protocol):
    @property
    def status(self) -> str: ...


Found = TypeVar("Found", bound=Verified)


def waits(timeout_seconds: float) -> Iterator[float]:
    """Yields the number of seconds to wait after each poll, until the timeout is reached."""
    if not timeout_seconds >= 0:
        raise ValueError("timeout_seconds must not be negative.")
    deadline = time.monotonic() + timeout_seconds
    next_seconds = FIRST_WAIT_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        yield min(next_seconds, left)
        next_seconds = min(next_seconds * 2, WAIT_SECONDS_MAX)


def decided(found: Found, trx_id: str) -> Found:
    if found.status == "pending":
        raise StillPending(trx_id)
    return found
