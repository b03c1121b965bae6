"""One provider cannot use all of a worker's concurrent calls."""

import asyncio
from contextlib import AsyncExitStack

from manilla.providers import slots
from manilla.providers.slots import ProviderSlots
from tests.support.limits import limited

CONCURRENCY = 8  # six calls to a provider that responds, and two to one that is stalled


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


async def _held(stack: AsyncExitStack, places: ProviderSlots, provider: str, tries: int) -> int:
    return sum([await stack.enter_async_context(places.hold(provider)) for _ in range(tries)])


async def test_a_provider_that_responds_leaves_a_quarter_of_the_places_to_others() -> None:
    async with AsyncExitStack() as stack:
        places = ProviderSlots(CONCURRENCY)
        with limited(host_wait_seconds=0):
            assert await _held(stack, places, "a", 7) == 6
        assert await _held(stack, places, "b", 1) == 1


async def test_a_stalled_provider_gets_no_more_than_a_quarter_of_the_places() -> None:
    clock = Clock()
    async with AsyncExitStack() as stack:
        places = ProviderSlots(CONCURRENCY, clock)
        assert await _held(stack, places, "a", 1) == 1
        clock.seconds += slots.STALLED_SECONDS + 1
        # With few calls in progress, a slow call does not count.
        assert await _held(stack, places, "a", 3) == 1
        assert await _held(stack, places, "b", 3) == 3


async def test_a_place_is_free_again_after_the_call() -> None:
    clock = Clock()
    places = ProviderSlots(CONCURRENCY, clock)
    async with AsyncExitStack() as stack:
        await _held(stack, places, "a", 6)
        clock.seconds += slots.STALLED_SECONDS + 1
        assert await _held(stack, places, "a", 1) == 0
    async with AsyncExitStack() as stack:
        assert await _held(stack, places, "a", 6) == 6


async def test_a_call_waits_for_the_place_of_a_call_that_ends() -> None:
    places = ProviderSlots(CONCURRENCY)

    async def call() -> bool:
        async with places.hold("a") as has_place:
            return has_place

    async with AsyncExitStack() as stack:
        await _held(stack, places, "a", 6)
        waiting = asyncio.create_task(call())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting


async def test_jobs_of_a_busy_provider_come_back_one_after_another() -> None:
    clock = Clock()
    places = ProviderSlots(CONCURRENCY, clock)
    assert [places.busy_seconds("a") for _ in range(3)] == [1.0, 1.5, 2.0]
    assert places.busy_seconds("b") == 1.0
    waits = [places.busy_seconds("a") for _ in range(100)]
    assert waits == sorted(waits)
    assert waits[-1] == slots.BUSY_SECONDS_MAX
    clock.seconds += 3600
    assert places.busy_seconds("a", 3.0) == 3.0


async def test_an_urgent_call_gets_a_place_of_a_stalled_provider_but_no_place_of_others() -> None:
    clock = Clock()
    async with AsyncExitStack() as stack:
        places = ProviderSlots(CONCURRENCY, clock)
        assert await _held(stack, places, "a", 2) == 2
        clock.seconds += slots.STALLED_SECONDS + 1
        assert await _held(stack, places, "a", 1) == 0
        with limited(host_wait_seconds=0):
            urgent = [places.hold("a", is_urgent=True) for _ in range(5)]
            assert sum([await stack.enter_async_context(each) for each in urgent]) == 4
        assert await _held(stack, places, "b", 2) == 2
