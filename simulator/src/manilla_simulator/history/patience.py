"""Waits until other processes have produced a result."""

import asyncio
from collections.abc import Awaitable, Callable

PAUSE_SECONDS = 0.05


async def until(is_so: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    """Polls until the condition is true. Raises TimeoutError after this many seconds."""
    async with asyncio.timeout(seconds):
        while not await is_so():  # noqa: ASYNC110
            await asyncio.sleep(PAUSE_SECONDS)
