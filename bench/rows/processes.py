"""Measures the payout rate and the CPU time per payout with one and with several API processes."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bench.comparisons import cost, speed
from bench.frame import Comparison, Row, Target
from bench.rows.initiate_payout import MERCHANTS, ask_once_for_each, funded_merchants, orders
from bench.stage import Stage

NUMBERS = (1, 2, 4)  # `manilla up` starts up to four processes
CPUS_PER_PROCESS = 2  # with fewer CPUs, `manilla up` starts fewer processes
RATE_MIN, COST_MAX = 1.0, 1.1
WARM_UPS = 12  # after this many requests, each process has cached nearly every merchant


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    cpus = len(os.sched_getaffinity(0))
    numbers = [number for number in NUMBERS if number <= max(2, cpus)]
    seeded, method = await funded_merchants(stage, MERCHANTS)
    contenders = []
    async with AsyncExitStack() as stack:
        for number in numbers:
            served = await stack.enter_async_context(stage.product_with(number))
            for _ in range(WARM_UPS if number > 1 else 1):
                await ask_once_for_each(served, seeded, method)
            contenders.append(orders(f"{number} processes", served, seeded, method))
        one, *several = [contender.name for contender in contenders]
        yield Row(
            name="processes",
            title=f"wallets: {MERCHANTS:,}, CPUs: {cpus}",
            contenders=contenders,
            comparisons=[
                comparison
                for number, each in zip(numbers[1:], several, strict=True)
                for comparison in _comparisons(
                    each, one, has_cpus=cpus >= number * CPUS_PER_PROCESS
                )
            ],
            cpus=cpus,
        )


def _comparisons(several: str, one: str, *, has_cpus: bool) -> tuple[Comparison, Comparison]:
    """More processes must be as fast, if the machine has enough CPUs for them."""
    return (
        speed(f"{several} / 1", several, one, Target(RATE_MIN) if has_cpus else None),
        cost(f"{several} / 1", several, one, COST_MAX if has_cpus else None),
    )
