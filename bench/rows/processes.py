"""Measures the payout rate and the CPU time per payout with one and with several API processes."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bench.comparisons import cost, speed
from bench.frame import Row, Target
from bench.rows.initiate_payout import MERCHANTS, ask_once_for_each, funded_merchants, orders
from bench.stage import Stage

PROCESSES_MAX = 4  # the most processes that `manilla up` starts
RATE_MIN, COST_MAX = 1.0, 1.1
WARM_UPS = 12  # after this many requests, each process has cached nearly every merchant


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    cpus = len(os.sched_getaffinity(0))
    seeded, method = await funded_merchants(stage, MERCHANTS)
    contenders = []
    async with AsyncExitStack() as stack:
        for number in sorted({1, 2, min(PROCESSES_MAX, max(2, cpus))}):
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
                for each in several
                for comparison in (
                    speed(f"{each} / 1", each, one, Target(RATE_MIN)),
                    cost(f"{each} / 1", each, one, COST_MAX),
                )
            ],
            cpus=cpus,
        )
