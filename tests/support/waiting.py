"""Waits until a condition is true, even if a busy machine takes long."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.support.timeouts import TIMEOUT_SECONDS

POLL_SECONDS = 0.01

Value = TypeVar("Value")


async def until(read: Callable[[], Awaitable[Value | None]]) -> Value:
    """Calls `read` until the result is true, and returns the result."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (value := await read()):
            await asyncio.sleep(POLL_SECONDS)
        return value


async def until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():
            await asyncio.sleep(POLL_SECONDS)
