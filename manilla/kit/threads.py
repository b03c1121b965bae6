"""Runs CPU-intensive work in a limited number of threads."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from manilla.kit.errors import Unavailable

Result = TypeVar("Result")


class LimitedThreads:
    """Runs a limited number of calls concurrently. Rejects calls if too many are waiting."""

    def __init__(self, name: str, *, at_once: int, waiting_max: int) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix=name)
        self._calls_max = waiting_max + at_once
        self._calls = 0

    async def run(self, work: Callable[..., Result], *values: Any) -> Result:
        if self._calls >= self._calls_max:
            raise Unavailable
        self._calls += 1
        done = asyncio.get_running_loop().run_in_executor(self._pool, work, *values)
        # If a caller stops waiting, its thread continues and still counts toward the limit.
        done.add_done_callback(self._end)
        return await asyncio.shield(done)

    def _end(self, done: "asyncio.Future[Any]") -> None:
        self._calls -= 1
        if not done.cancelled():
            done.exception()  # otherwise asyncio logs an exception that no caller retrieves
