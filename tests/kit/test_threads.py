"""The number of threads for long work and the length of their queue are limited."""

import asyncio
import threading

import pytest

from manilla.kit.errors import Unavailable
from manilla.kit.threads import LimitedThreads
from tests.support.waiting import until


async def test_a_call_is_refused_at_once_if_too_many_wait() -> None:
    threads = LimitedThreads("test", at_once=1, waiting_max=1)
    release, running = threading.Event(), list[int]()

    def work(number: int) -> int:
        running.append(number)
        release.wait()
        return number

    calls = [asyncio.create_task(threads.run(work, number)) for number in (1, 2)]

    async def has_begun() -> bool:
        return bool(running)

    await until(has_begun)
    with pytest.raises(Unavailable):
        await threads.run(work, 3)
    calls[1].cancel()  # A caller that stops waiting leaves its call in the queue.
    with pytest.raises(Unavailable):
        await threads.run(work, 4)
    assert running == [1]
    release.set()
    assert await calls[0] == 1

    async def has_ended() -> bool:
        return threads._calls == 0

    await until(has_ended)
    assert await threads.run(work, 5) == 5
    assert running == [1, 2, 5]


async def test_an_error_reaches_the_caller() -> None:
    threads = LimitedThreads("test", at_once=1, waiting_max=1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
