"""Waits for a condition, however long a busy machine takes to meet it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.timeouts import TIMEOUT_SECONDS

POLL_SECONDS = 0.01

Value = TypeVar("Value")


async def until(read: Callable[[], Awaitable[Value | None]]) -> Value:
    """Calls `read` until it returns something true, and returns that."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (value := await read()):
            await asyncio.sleep(POLL_SECONDS)
        return value


async def until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():
            await asyncio.sleep(POLL_SECONDS)
