"""Unit tests of the queue of requests, which begins a few of them in each turn of the loop."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

import pytest

from manilla.kit.batch import Batcher
from manilla.kit.server.request_queue import RequestQueue
from tests.timeouts import TIMEOUT_SECONDS


async def test_each_turn_begins_only_some_requests_in_order() -> None:
    queue, begun, loop = RequestQueue(), list[int](), asyncio.get_running_loop()
    for number in range(2 * RequestQueue.TURN_MAX + 1):
        queue.add(loop, partial(begun.append, number))
    assert len(begun) == RequestQueue.TURN_MAX
    await asyncio.sleep(0)
    assert len(begun) == 2 * RequestQueue.TURN_MAX
    await asyncio.sleep(0)
    assert begun == list(range(2 * RequestQueue.TURN_MAX + 1))


async def test_a_burst_is_not_refused() -> None:
    queue, loop = RequestQueue(), asyncio.get_running_loop()
    for _ in range(10 * RequestQueue.TURN_MAX):
        queue.add(loop, lambda: None)
    await asyncio.sleep(0)
    assert not queue.is_full()


async def test_requests_that_arrived_while_the_process_was_paused_are_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RequestQueue, "WAIT_SECONDS_MAX", 0.001)
    monkeypatch.setattr(RequestQueue, "TURN_SECONDS_MAX", 0.01)
    queue, loop = RequestQueue(), asyncio.get_running_loop()
    for _ in range(3 * RequestQueue.TURN_MAX):
        queue.add(loop, lambda: None)
    time.sleep(0.02)  # noqa: ASYNC251 (the whole process pauses)
    await asyncio.sleep(0)
    assert not queue.is_full()


async def test_the_number_of_waiting_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestQueue, "LENGTH_MAX", 3)
    queue, loop = RequestQueue(), asyncio.get_running_loop()
    for _ in range(RequestQueue.TURN_MAX + 3):
        queue.add(loop, lambda: None)
    assert queue.is_full()


async def test_while_many_wait_for_the_database_no_request_begins_and_soon_all_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RequestQueue, "WAIT_SECONDS_MAX", 0.01)
    go = asyncio.Event()

    async def stuck(items: Sequence[int]) -> Sequence[int]:
        await go.wait()
        return items

    batcher = Batcher(stuck)
    submitted = [asyncio.create_task(batcher.submit(1)) for _ in range(RequestQueue.UNANSWERED_MAX)]
    await asyncio.sleep(0)
    queue, begun, loop = RequestQueue(), list[int](), asyncio.get_running_loop()
    queue.add(loop, partial(begun.append, 0))
    await asyncio.sleep(0)  # the next turn looks at the waiting submissions
    queue.add(loop, partial(begun.append, 1))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not queue.is_full():
            await asyncio.sleep(0.001)
        assert begun == [0]
        go.set()
        await asyncio.gather(*submitted)
        while queue.is_full() or begun != [0, 1]:
            await asyncio.sleep(0.001)
