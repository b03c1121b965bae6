"""How long one request may wait for the database, over all its statements together.

Waiting for other services, such as a provider, does not count.
"""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from manilla.kit.errors import Unavailable

REQUEST_SECONDS = 2.5
# For a part of a page that may be missing where the database is slow: the rest needs time too.
OPTIONAL_SECONDS = 1.2

Result = TypeVar("Result")


class Budget:
    """What is left of a request's time. Waits that overlap count once."""

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


@contextmanager
def limited(seconds: float | None = None) -> Iterator[None]:
    """The database work of this block fails with Unavailable once it has taken that long."""
    token = _budget.set(Budget(seconds or REQUEST_SECONDS))
    try:
        yield
    finally:
        _budget.reset(token)


def renew() -> None:
    """Starts over, for a response that is sent in many parts."""
    if (budget := _budget.get()) is not None:
        budget.renew(REQUEST_SECONDS)


def left() -> float | None:
    """None outside of requests."""
    budget = _budget.get()
    if budget is None:
        return None
    if (seconds := budget.left) <= 0:
        raise Unavailable from TimeoutError("the request's time for the database is used up")
    return seconds


@contextmanager
def counted() -> Iterator[None]:
    """The time that this block takes counts against the request's."""
    budget = _budget.get()
    if budget is None:
        yield
        return
    budget.begin()
    try:
        yield
    finally:
        budget.end()


def detached(work: Coroutine[Any, Any, Result]) -> "asyncio.Task[Result]":
    """A task that outlives the request that starts it, and so is not bound to its time."""
    context = copy_context()
    context.run(_budget.set, None)
    return asyncio.create_task(work, context=context)


async def wait_for(shared: "asyncio.Future[Result]") -> Result:
    """Waits for work that others may wait for too: giving up does not end it."""
    with counted():
        done, _ = await asyncio.wait({shared}, timeout=left())
    if not done:
        raise Unavailable from TimeoutError("the database did not answer in time")
    return shared.result()


async def answered(future: "asyncio.Future[Result]") -> Result:
    """Waits for a future of one's own, which whoever works on it finds done if it came too late."""
    seconds = left()
    if seconds is None:
        return await future
    late = asyncio.get_running_loop().call_later(seconds, _give_up, future)
    try:
        with counted():
            return await future
    finally:
        late.cancel()


def _give_up(future: "asyncio.Future[Any]") -> None:
    if not future.done():
        unavailable = Unavailable()
        unavailable.__cause__ = TimeoutError("the database did not answer in time")
        future.set_exception(unavailable)
