"""Unit tests of the backlog of requests, which begins a few of them in each turn of the loop."""

import asyncio
from functools import partial

import pytest

from manilla.kit.serving import Backlog


async def test_each_turn_begins_only_some_requests_in_order() -> None:
    backlog, begun, loop = Backlog(), list[int](), asyncio.get_running_loop()
    for number in range(2 * Backlog.TURN_MAX + 1):
        backlog.add(loop, partial(begun.append, number))
    assert len(begun) == Backlog.TURN_MAX
    await asyncio.sleep(0)
    assert len(begun) == 2 * Backlog.TURN_MAX
    await asyncio.sleep(0)
    assert begun == list(range(2 * Backlog.TURN_MAX + 1))


async def test_a_burst_is_not_refused_but_a_long_wait_is() -> None:
    backlog, loop = Backlog(), asyncio.get_running_loop()
    for _ in range(10 * Backlog.TURN_MAX):
        backlog.add(loop, lambda: None)
    assert not backlog.is_full(loop.time())
    assert backlog.is_full(loop.time() + 2 * Backlog.WAIT_SECONDS_MAX)


async def test_the_number_of_waiting_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backlog, "LENGTH_MAX", 3)
    backlog, loop = Backlog(), asyncio.get_running_loop()
    for _ in range(Backlog.TURN_MAX + 3):
        backlog.add(loop, lambda: None)
    assert backlog.is_full(loop.time())


async def test_an_empty_backlog_accepts_again() -> None:
    backlog, loop = Backlog(), asyncio.get_running_loop()
    for _ in range(3 * Backlog.TURN_MAX):
        backlog.add(loop, lambda: None)
    for _ in range(4):
        await asyncio.sleep(0)
    assert not backlog.is_full(loop.time() + 2 * Backlog.WAIT_SECONDS_MAX)
