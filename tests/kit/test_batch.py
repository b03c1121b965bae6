"""Unit tests of the batcher, with functions that record their calls."""

import asyncio
import contextlib
from collections.abc import Sequence

import asyncpg
import pytest

from manilla.kit import deadline
from manilla.kit.batch import Batcher
from manilla.kit.errors import Unavailable
from tests.support import clock
from tests.support.limits import limited


class Recorder:
    """Doubles numbers and records its calls. The number 13 raises an error, like failing SQL."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    async def run(self, items: Sequence[int]) -> list[int]:
        self.calls.append(list(items))
        await asyncio.sleep(0.001)
        if 13 in items:
            raise ZeroDivisionError
        return [item * 2 for item in items]


async def test_concurrent_submissions_share_a_statement_and_keep_their_order() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run)
    results = await asyncio.gather(*(batcher.submit(number) for number in range(20, 70)))
    assert results == [number * 2 for number in range(20, 70)]
    assert recorder.calls == [list(range(20, 70))]


async def test_items_that_arrive_during_a_statement_form_the_next_batch() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run)
    first = asyncio.create_task(batcher.submit(1))
    await asyncio.sleep(0.0005)
    rest = [asyncio.create_task(batcher.submit(number)) for number in (2, 3, 4)]
    await asyncio.gather(first, *rest)
    assert recorder.calls == [[1], [2, 3, 4]]


async def test_batch_size_is_limited() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run, batch_max=8)
    await asyncio.gather(*(batcher.submit(number) for number in range(20, 40)))
    assert [len(call) for call in recorder.calls] == [8, 8, 4]


async def test_a_failing_item_fails_alone() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run)
    results = await asyncio.gather(
        *(batcher.submit(number) for number in range(32)), return_exceptions=True
    )
    assert isinstance(results[13], ZeroDivisionError)
    assert [r for i, r in enumerate(results) if i != 13] == [i * 2 for i in range(32) if i != 13]


async def test_a_full_queue_rejects_items_and_recovers() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run, waiting_max=3)
    results = await asyncio.gather(
        *(batcher.submit(number) for number in range(5)), return_exceptions=True
    )
    assert [isinstance(result, Unavailable) for result in results] == [False] * 3 + [True] * 2
    assert await batcher.submit(7) == 14


async def test_a_lost_database_fails_all_items_without_a_retry() -> None:
    calls = 0

    async def run(_items: Sequence[int]) -> list[int]:
        nonlocal calls
        calls += 1
        raise Unavailable

    batcher = Batcher(run)
    results = await asyncio.gather(*(batcher.submit(n) for n in range(9)), return_exceptions=True)
    assert all(isinstance(result, Unavailable) for result in results)
    assert calls == 1


@pytest.mark.parametrize(("conflicts", "succeeds"), [(4, True), (5, False)])
async def test_a_deadlock_is_retried_a_limited_number_of_times(
    conflicts: int, succeeds: bool
) -> None:
    calls = 0

    async def run(items: Sequence[int]) -> list[int]:
        nonlocal calls
        calls += 1
        if calls <= conflicts:
            raise asyncpg.DeadlockDetectedError
        return list(items)

    batcher = Batcher(run)
    if succeeds:
        assert await batcher.submit(1) == 1
    else:
        with pytest.raises(asyncpg.DeadlockDetectedError):
            await batcher.submit(1)
    assert calls == 5


async def test_a_canceled_submitter_does_not_affect_the_others() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run)
    gone = asyncio.create_task(batcher.submit(1))
    stays = asyncio.create_task(batcher.submit(2))
    await asyncio.sleep(0)
    gone.cancel()
    assert await stays == 4
    await batcher.close()


async def test_concurrent_callers_are_batched_and_a_single_one_does_not_wait() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run, gather_seconds=40)
    assert await batcher.submit(1) == 2
    await asyncio.gather(*(batcher.submit(number) for number in (2, 3)))
    # The first SQL statement has finished, and the batcher waits for more items.
    late = [asyncio.create_task(batcher.submit(number)) for number in (4, 5)]
    await asyncio.sleep(0)
    late.append(asyncio.create_task(batcher.submit(6)))
    await asyncio.sleep(0)
    clock.advance(40)
    await asyncio.gather(*late)
    assert recorder.calls == [[1], [2, 3], [4, 5, 6]]


async def test_a_delayed_statement_takes_items_that_arrive_one_after_another() -> None:
    recorder = Recorder()
    batcher = Batcher(recorder.run, delay_seconds=40, batch_max=3)
    submitted = []
    for number in (1, 2):
        submitted.append(asyncio.create_task(batcher.submit(number)))
        await asyncio.sleep(0)
    assert recorder.calls == []
    clock.advance(40)
    await asyncio.gather(*submitted)
    # A full batch is not delayed.
    await asyncio.gather(*(batcher.submit(number) for number in (3, 4, 5)))
    assert recorder.calls == [[1, 2], [3, 4, 5]]


async def test_a_submitter_that_times_out_does_not_hold_back_the_others() -> None:
    started, release = asyncio.Event(), asyncio.Event()
    calls: list[list[int]] = []

    async def run(items: Sequence[int]) -> Sequence[int]:
        calls.append(list(items))
        started.set()
        await release.wait()
        return items

    async def hurried(number: int) -> int:
        with deadline.limited(40):
            return await batcher.submit(number)

    batcher = Batcher(run)
    first = asyncio.create_task(hurried(1))
    await started.wait()
    patient, second = asyncio.create_task(batcher.submit(2)), asyncio.create_task(hurried(3))
    await asyncio.sleep(0)
    clock.advance(41)
    for late in (first, second):
        with pytest.raises(Unavailable):
            await late
    release.set()
    assert await patient == 2
    # The batcher finished the running call and canceled the queued call.
    assert calls == [[1], [2]]
    with deadline.limited(0.01):
        with contextlib.suppress(Unavailable), deadline.counted():
            await asyncio.sleep(0.02)
        with pytest.raises(Unavailable):
            await batcher.submit(4)
    assert calls == [[1], [2]]


async def test_items_are_refused_while_the_first_one_waits_too_long() -> None:
    go = asyncio.Event()

    async def stuck(items: Sequence[int]) -> Sequence[int]:
        await go.wait()
        return items

    batcher = Batcher(stuck)
    running = asyncio.create_task(batcher.submit(1))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(batcher.submit(number)) for number in (2, 3)]
    await asyncio.sleep(0)
    with limited(batch_wait_seconds=40):
        clock.advance(20)
        waiting.append(asyncio.create_task(batcher.submit(4)))
        await asyncio.sleep(0)
        clock.advance(21)
        with pytest.raises(Unavailable):
            await batcher.submit(5)
    go.set()
    assert [await each for each in (running, *waiting)] == [1, 2, 3, 4]
    assert await batcher.submit(6) == 6
