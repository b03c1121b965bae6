"""Limits a worker's concurrent calls per provider, so that a hanging provider delays no other."""

import asyncio
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from manilla.kit import time_limits

STALLED_SECONDS = 2.0  # a provider whose oldest call takes longer than this counts as stalled
BUSY_SECONDS_MIN, BUSY_SECONDS_MAX = 1.0, 30.0


class _Calls(msgspec.Struct):
    places: asyncio.Semaphore
    started: dict[int, float] = {}  # by number, oldest first
    next_turn: float = 0.0  # the time until which jobs have been put off


class ProviderSlots:
    """Divides the slots of one kind of job among the providers.

    A provider that responds can use three quarters of the slots, and a stalled one a quarter.
    Only urgent calls to a stalled provider can use the other half.
    """

    def __init__(self, concurrency: int, now: Callable[[], float] = time.monotonic) -> None:
        self._stalled_max = max(1, concurrency // 4)
        self._now = now
        self._numbers = itertools.count()
        places_max = max(1, concurrency * 3 // 4)
        self._calls: defaultdict[str, _Calls] = defaultdict(
            lambda: _Calls(asyncio.Semaphore(places_max))
        )

    @asynccontextmanager
    async def hold(self, provider: str, *, is_urgent: bool = False) -> AsyncIterator[bool]:
        """Holds a slot for a call to the provider. Yields False if the provider has none left.

        Waits briefly for a provider that responds. Without a slot, the job must be delayed by
        `busy_seconds`. `is_urgent`: the job cannot be delayed, so it also gets a slot if the
        provider is stalled.
        """
        calls = self._calls[provider]
        is_stalled = not is_urgent and self._is_stalled(calls)
        if is_stalled or not await _acquired(calls.places):
            yield False
            return
        number = next(self._numbers)
        calls.started[number] = self._now()
        try:
            yield True
        finally:
            del calls.started[number]
            calls.places.release()

    def busy_seconds(self, provider: str, seconds_min: float = BUSY_SECONDS_MIN) -> float:
        """Returns how long to delay a job of a provider that cannot be called now.

        The jobs come back one after another, and not all at once: claiming thousands of jobs again
        and again would delay the jobs of other providers.
        """
        calls, now = self._calls[provider], self._now()
        calls.next_turn = max(now + seconds_min, calls.next_turn + 1 / self._stalled_max)
        calls.next_turn = min(calls.next_turn, now + BUSY_SECONDS_MAX)
        return calls.next_turn - now

    def _is_stalled(self, calls: _Calls) -> bool:
        if len(calls.started) < self._stalled_max:
            return False
        oldest = next(iter(calls.started.values()))
        return self._now() - oldest > STALLED_SECONDS


async def _acquired(places: asyncio.Semaphore) -> bool:
    if not places.locked():
        return await places.acquire()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(time_limits.current.host_wait_seconds):
            return await places.acquire()
    return False
