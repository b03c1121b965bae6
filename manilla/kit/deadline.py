"""Limits the total time that one request may wait for the database.

The time that a request waits for other services, such as a provider, does not count.
"""

import asyncio
import time
from collections.abc import Awaitable, Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import structlog

from manilla.kit import time_limits
from manilla.kit.errors import Unavailable

log = structlog.get_logger(__name__)

Result = TypeVar("Result")

USED_UP = "the request has used up its database time"


class Budget:
    """The remaining database time of a request. Overlapping waits count only once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits = 0
        self._since = 0.0

    @property
    def left(self) -> float:
        return self._seconds - (time.monotonic() - self._since if self._waits else 0)

    def renew(self, seconds: float) -> None:
        self._seconds, self._since = seconds, time.monotonic()

    def begin(self) -> None:
        if not self._waits:
            self._since = time.monotonic()
        self._waits += 1

    def end(self) -> None:
        self._waits -= 1
        if not self._waits:
            self._seconds -= time.monotonic() - self._since


_budget: ContextVar[Budget | None] = ContextVar("database_budget", default=None)


class limited:  # noqa: N801 (the class is used like a function)
    """Limits the database time of this block. Queries raise Unavailable after the limit."""

    def __init__(self, seconds: float | None = None, *, waited_seconds: float = 0) -> None:
        self._seconds = (seconds or time_limits.current.request_seconds) - waited_seconds

    def __enter__(self) -> None:
        self._token = _budget.set(Budget(self._seconds))

    def __exit__(self, *_error: object) -> None:
        _budget.reset(self._token)


def renew() -> None:
    """Restarts the time limit before each part of a response that is sent in parts."""
    if (budget := _budget.get()) is not None:
        budget.renew(time_limits.current.request_seconds)


def remaining_seconds() -> float | None:
    """Returns the remaining database time, or None outside of requests.

    Raises Unavailable if no time remains.
    """
    budget = _budget.get()
    if budget is None:
        return None
    if (seconds := budget.left) <= 0:
        raise Unavailable from TimeoutError(USED_UP)
    return seconds


class counted:  # noqa: N801 (the class is used like a function)
    """Counts the duration of this block toward the request's database time."""

    def __enter__(self) -> None:
        self._budget = _budget.get()
        if self._budget is not None:
            self._budget.begin()

    def __exit__(self, *_error: object) -> None:
        if self._budget is not None:
            self._budget.end()


def start_detached(work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
    """Starts a task that can outlive the request. The request's time limit does not apply to the
    task.
    """
    context = copy_context()
    context.run(_budget.set, None)
    return asyncio.create_task(work, context=context)


async def wait_for(shared: "asyncio.Future[Result]") -> Result:
    """Waits for a task that other callers may also wait for. A timeout here does not cancel the
    task.
    """
    with counted():
        done, _ = await asyncio.wait({shared}, timeout=remaining_seconds())
    if not done:
        # Without this callback, asyncio logs an exception that no caller retrieves.
        shared.add_done_callback(_retrieve)
        raise Unavailable from TimeoutError("the database timed out")
    return shared.result()


def _retrieve(shared: "asyncio.Future[Any]") -> None:
    error = None if shared.cancelled() else shared.exception()
    if error is not None and not isinstance(error, Unavailable):
        log.error("detached_task_failed", exc_info=error)


class Waits:
    """Limits the time until futures get their results.

    One timer checks all futures, because a separate timer for each future has more overhead.
    """

    LOOK_SECONDS = 0.05

    def __init__(self) -> None:
        self._limited: list[tuple[float, asyncio.Future[Any]]] = []

    def limit(self, future: "asyncio.Future[Any]", seconds: float) -> None:
        """Sets an exception on the future after this time, so that the batcher skips its item."""
        loop = future.get_loop()
        if not self._limited:
            loop.call_later(min(seconds, self.LOOK_SECONDS), self._look, loop)
        self._limited.append((loop.time() + seconds, future))

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        waiting = [pair for pair in self._limited if not pair[1].done()]
        for due, future in waiting:
            if due <= now:
                _give_up(future)
        self._limited = [pair for pair in waiting if not pair[1].done()]
        if self._limited:
            loop.call_later(self.LOOK_SECONDS, self._look, loop)


def _give_up(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        unavailable = Unavailable()
        unavailable.__cause__ = TimeoutError("the database timed out")
        future.set_exception(unavailable)


async def or_none(part: Awaitable[Result]) -> Result | None:
    """Awaits an optional part of a page. Returns None if the part takes too long."""
    try:
        async with asyncio.timeout(time_limits.current.optional_seconds):
            return await part
    except (TimeoutError, Unavailable):
        return None
