"""Payouts at a fixed rate: latency at half of the maximum, and behavior at twice the maximum."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from bench import cpu
from bench.comparisons import detail
from bench.frame import PRODUCT, Row, Target, Work
from bench.paced import OK, Offered, offer, percentile_ms, times
from bench.report import MEBIBYTE
from bench.rows.initiate_payout import (
    MERCHANTS,
    ask_once_for_each,
    by_callers,
    funded_merchants,
    orders,
)
from bench.stage import Stage

HALF_CONNECTIONS, OVERLOAD_CONNECTIONS = 256, 6000
MEDIAN, P99, P99_MAX = "ms: median", "ms: p99", 20
HALF = {MEDIAN: 50, P99: 99}
HALF_TIMES = 3  # a 99th percentile needs more requests than one block has

MAXIMUM_SECONDS, AFTER_SECONDS, LOOK_SECONDS = 3, 5, 0.2
CALM_SECONDS = 0.1  # slower requests show that the overload still has an effect
GOODPUT, LOST = "rate: goodput / maximum", "share: neither 200 nor 503 with Retry-After"
REFUSED, REFUSED_P99, SERVED_P99 = "share: 503", "ms: p99 of the 503", "ms: p99 of the 200"
UNSENT_P99 = "ms: p99 of the wait before sending"
GROWN, RECOVERED = "MiB: growth of the API's memory", "seconds: to recover"
TARGETS = {
    GOODPUT: Target(0.9),
    REFUSED: None,
    LOST: Target(0.001, at_most=True),
    REFUSED_P99: Target(100, at_most=True),
    SERVED_P99: None,
    UNSENT_P99: None,
    GROWN: Target(64, at_most=True),
    RECOVERED: Target(2, at_most=True),
}


@asynccontextmanager
async def half_load(stage: Stage) -> AsyncIterator[Row]:
    served = await stage.product()
    seeded, method = await funded_merchants(stage, MERCHANTS)
    await ask_once_for_each(served, seeded, method)
    pace = _Pace()
    maximum = orders("at the maximum", served, seeded, method, pace.maximum)
    await maximum.run(1)
    yield Row(
        name="half-load",
        title=f"wallets: {MERCHANTS:,}; the ratios are milliseconds",
        contenders=[orders(PRODUCT, served, seeded, method, pace.half), maximum],
        comparisons=[
            detail(MEDIAN, PRODUCT),
            detail(P99, PRODUCT, Target(P99_MAX, at_most=True)),
        ],
    )


class _Pace:
    """Measures the maximum rate, and sends requests at half of the last measured rate."""

    def __init__(self) -> None:
        self._rate = 0.0

    async def maximum(self, port: int, requests: Iterator[bytes], seconds: float) -> Work:
        work = await by_callers(port, requests, seconds)
        self._rate = work.done / work.seconds
        return work

    async def half(self, port: int, requests: Iterator[bytes], seconds: float) -> Work:
        seconds *= HALF_TIMES
        offered = await offer(port, requests, self._rate / 2, seconds, HALF_CONNECTIONS)
        served = offered.served
        assert len(served) == offered.number, "a request failed at half load"
        details = {percent: percentile_ms(times(served), share) for percent, share in HALF.items()}
        return Work(len(served), seconds, details)


@asynccontextmanager
async def overload(stage: Stage) -> AsyncIterator[Row]:
    served = await stage.product()
    seeded, method = await funded_merchants(stage, MERCHANTS)
    await ask_once_for_each(served, seeded, method)

    async def send(port: int, requests: Iterator[bytes], _seconds: float) -> Work:
        return await _overloaded(port, requests, stage.plan.overload_seconds, served.pid)

    yield Row(
        name="overload",
        title=f"wallets: {MERCHANTS:,}, connections: {OVERLOAD_CONNECTIONS:,}",
        contenders=[orders(PRODUCT, served, seeded, method, send)],
        comparisons=[detail(name, PRODUCT, target) for name, target in TARGETS.items()],
        once=True,
    )


async def _overloaded(port: int, requests: Iterator[bytes], seconds: float, pid: int) -> Work:
    """Measures the maximum before and after the overload, because the machine's speed varies."""
    before = await by_callers(port, requests, MAXIMUM_SECONDS)
    rate = before.done / before.seconds
    memory, most = cpu.resident_bytes(pid), asyncio.create_task(_most_memory(pid))
    during = await offer(port, requests, 2 * rate, seconds, OVERLOAD_CONNECTIONS)
    calm = await offer(port, requests, rate / 2, AFTER_SECONDS, OVERLOAD_CONNECTIONS)
    most.cancel()
    after = await by_callers(port, requests, MAXIMUM_SECONDS)
    maximum = (before.done + after.done) / (before.seconds + after.seconds)
    return Work(
        len(during.served),
        seconds,
        {
            GOODPUT: len(during.served) / seconds / maximum,
            REFUSED: len(during.refused) / during.number,
            LOST: 1 - (len(during.served) + len(during.refused)) / during.number,
            REFUSED_P99: percentile_ms(times(during.refused), 99),
            SERVED_P99: percentile_ms(times(during.served), 99),
            UNSENT_P99: percentile_ms((each.unsent_seconds for each in during.answers), 99),
            GROWN: (await most - memory) / MEBIBYTE,
            RECOVERED: _seconds_to_recover(calm),
        },
    )


async def _most_memory(pid: int) -> int:
    """Polls the process's memory until the task is cancelled, and returns the highest value."""
    most = 0
    try:
        while True:
            most = max(most, cpu.resident_bytes(pid))
            await asyncio.sleep(LOOK_SECONDS)
    except asyncio.CancelledError:
        return most


def _seconds_to_recover(calm: Offered) -> float:
    """Returns the due time of the last request that was refused, lost or slow."""
    if len(calm.answers) < calm.number:
        return calm.seconds
    slow = [each.due for each in calm.answers if each.status != OK or each.seconds > CALM_SECONDS]
    return max(slow, default=0.0)
