"""Unit tests of the request queue, which starts a few requests in each event-loop iteration."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, cast

import pytest

from manilla.kit import deadline, time_limits
from manilla.kit.batch import Batcher
from manilla.kit.errors import Unavailable
from manilla.kit.server import request_queue
from manilla.kit.server.request_queue import RequestQueue
from tests.support.limits import limited


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    """Uses the product's real time limits, because the tests control the clock."""
    with limited(queue_wait_seconds=0.5, request_seconds=2.5):
        yield


class Loop:
    """An event loop whose iterations and clock the test controls."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._next: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., None], *given: Any) -> None:
        self._next.append(partial(callback, *given))

    def call_later(self, _seconds: float, callback: Callable[..., None], *given: Any) -> None:
        self._next.append(partial(callback, *given))

    def turn(self, after_seconds: float = 0.0) -> None:
        """Runs one iteration of the event loop after this many seconds."""
        self.now += after_seconds
        due, self._next = self._next, []
        for each in due:
            each()


class Queue:
    def __init__(self) -> None:
        self.loop, self.begun = Loop(), list[int]()
        self.waited_seconds: list[float] = []
        self._queue = RequestQueue()

    def add(self, number: int) -> None:
        loop = cast(asyncio.AbstractEventLoop, self.loop)
        self._queue.add(loop, partial(self._begin, number))

    def _begin(self, number: int, waited_seconds: float) -> None:
        self.begun.append(number)
        self.waited_seconds.append(waited_seconds)

    def add_many(self, count: int) -> None:
        for number in range(count):
            self.add(number)

    def __len__(self) -> int:
        return len(self._queue._waiting)

    def is_full(self) -> bool:
        return self._queue.is_full(cast(asyncio.AbstractEventLoop, self.loop))


def test_each_turn_begins_only_some_requests_in_order() -> None:
    queue = Queue()
    queue.add_many(2 * RequestQueue.TURN_MAX + 1)
    assert len(queue.begun) == RequestQueue.TURN_MAX
    queue.loop.turn()
    assert len(queue.begun) == 2 * RequestQueue.TURN_MAX
    queue.loop.turn()
    assert queue.begun == list(range(2 * RequestQueue.TURN_MAX + 1))


def test_a_burst_is_not_refused() -> None:
    queue = Queue()
    queue.add_many(10 * RequestQueue.TURN_MAX)
    queue.loop.turn()
    assert not queue.is_full()


def test_requests_that_arrived_while_the_process_was_paused_are_not_refused() -> None:
    queue = Queue()
    queue.add_many(3 * RequestQueue.TURN_MAX)
    queue.loop.turn(after_seconds=10 * time_limits.current.queue_wait_seconds)
    assert len(queue.begun) < 3 * RequestQueue.TURN_MAX
    assert not queue.is_full()


def test_requests_during_a_pause_that_the_queue_has_not_noticed_are_not_refused() -> None:
    queue = Queue()
    queue.add_many(RequestQueue.TURN_MAX + 1)
    queue.loop.now += 10 * time_limits.current.queue_wait_seconds
    assert not queue.is_full()


def test_an_iteration_that_reads_many_requests_is_not_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = Queue()
    monkeypatch.setattr(request_queue, "thread_time", queue.loop.time)  # all time is CPU time
    queue.add_many(3 * RequestQueue.TURN_MAX)
    queue.loop.now += 2 * time_limits.current.queue_wait_seconds
    assert queue.is_full()
    queue.loop.turn()
    assert queue.is_full()
    queue.loop.turn()
    assert not queue.is_full()


def test_a_queue_contains_only_what_starts_soon() -> None:
    """Otherwise all requests of half a second would be queued, and most of them would be late."""
    queue, turns_in_period = Queue(), 5
    step = time_limits.current.queue_wait_seconds / 2 / turns_in_period
    longest = 0
    for _ in range(10 * turns_in_period):
        for number in range(3 * RequestQueue.TURN_MAX):
            if not queue.is_full():
                queue.add(number)
        queue.loop.turn(step)
        longest = max(longest, len(queue))
    capacity = (turns_in_period + 1) * RequestQueue.TURN_MAX
    assert len(queue) <= capacity
    assert longest < 3 * capacity
    assert max(queue.waited_seconds) < time_limits.current.queue_wait_seconds * 1.5
    while len(queue):
        queue.loop.turn(step)
    queue.add_many(2 * capacity)
    assert not queue.is_full()


def test_idle_time_is_not_subtracted_from_the_waiting_time() -> None:
    queue = Queue()
    queue.add(0)
    queue.loop.turn()
    queue.loop.now += 1000
    queue.add_many(3 * RequestQueue.TURN_MAX)
    queue.loop.turn()
    assert queue.waited_seconds[-1] == 0


def test_the_number_of_waiting_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestQueue, "LENGTH_MAX", 3)
    queue = Queue()
    queue.add_many(RequestQueue.TURN_MAX + 2)
    assert not queue.is_full()
    queue.add(0)
    assert queue.is_full()


async def test_while_many_wait_for_the_database_no_request_begins_and_soon_all_are_refused() -> (
    None
):
    go = asyncio.Event()

    async def stuck(items: Sequence[int]) -> Sequence[int]:
        await go.wait()
        return items

    batcher = Batcher(stuck)
    submitted = [asyncio.create_task(batcher.submit(1)) for _ in range(RequestQueue.UNANSWERED_MAX)]
    await asyncio.sleep(0)
    queue = Queue()
    queue.add(0)
    queue.loop.turn()  # This iteration checks the waiting submissions.
    queue.add(1)
    step = RequestQueue.PAUSE_SECONDS_MIN / 2
    for _ in range(int(time_limits.current.queue_wait_seconds / step)):
        assert not queue.is_full()
        queue.loop.turn(step)
    queue.loop.turn(step)
    assert queue.is_full()
    assert queue.begun == [0]
    queue.add(2)
    queue.loop.turn(step)
    assert queue.begun == [0]

    go.set()
    await asyncio.gather(*submitted)
    queue.loop.turn(step)
    assert not queue.is_full()
    assert queue.begun == [0, 1, 2]
    assert queue.waited_seconds[0] == 0 < queue.waited_seconds[2] < queue.waited_seconds[1]


async def test_a_request_whose_time_is_up_is_begun_so_that_it_is_refused() -> None:
    stuck: Batcher[int, int] = Batcher(lambda _: asyncio.get_running_loop().create_future())
    submitted = [asyncio.create_task(stuck.submit(1)) for _ in range(RequestQueue.UNANSWERED_MAX)]
    await asyncio.sleep(0)
    queue, step = Queue(), RequestQueue.PAUSE_SECONDS_MIN / 2
    queue.add(0)
    queue.loop.turn()
    queue.add(1)
    turns = 0
    while queue.begun == [0]:
        queue.loop.turn(step)
        turns += 1
    assert queue.begun == [0, 1]
    limit = time_limits.current.request_seconds
    assert limit <= queue.waited_seconds[1] < limit + 2 * step
    with deadline.limited(waited_seconds=queue.waited_seconds[1]), pytest.raises(Unavailable):
        deadline.remaining_seconds()
    for each in submitted:
        each.cancel()
    await asyncio.gather(*submitted, return_exceptions=True)
