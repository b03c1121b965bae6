"""A signed `GET /api/v1/site-info`, which shows the overhead that every request has."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.comparisons import (
    against_baseline,
    database_cpu_against_pgbench,
    rate_against_pgbench,
)
from bench.frame import BASELINE, PRODUCT, Contender, Row, Work
from bench.load import load
from bench.pgbench import Script
from bench.signed import signed
from bench.stage import Served, Stage
from manilla.kit import ratelimit

PATH = "/api/v1/site-info"
CALLERS = 32
# This name is as long as the names of Manilla's rate-limit buckets.
PGBENCH_BUCKET = "00000000001:sandbox:127.0.0.2"


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    product, baseline = await asyncio.gather(stage.product(), stage.baseline())
    async with stage.pgbench.started(await _counting()) as pgbench:
        yield Row(
            name="site-info",
            title=f"callers: {CALLERS}",
            contenders=[
                signed_calls(stage, PRODUCT, product, CALLERS),
                pgbench,
                signed_calls(stage, BASELINE, baseline, CALLERS),
            ],
            comparisons=[
                rate_against_pgbench(),
                database_cpu_against_pgbench(),
                *against_baseline(),
            ],
        )


def signed_calls(stage: Stage, name: str, served: Served, callers: int) -> Contender:
    async def run(seconds: float) -> Work:
        request = signed(stage.merchant.sandbox, "GET", PATH)
        return await load(served.port, itertools.repeat(request), callers, seconds)

    return Contender(name, run, served.pid)


async def _counting() -> Script:
    """Captures Manilla's own counting statement, for pgbench to reuse."""
    overheard: list[str] = []

    class Listener:
        async def rows(self, _kind: Any, sql: str, *_values: Any) -> list[Any]:
            overheard.append(sql)
            return []

    listener: Any = Listener()
    await ratelimit._add(listener, {PGBENCH_BUCKET: 1})
    text = overheard[0].replace("$1", ":bucket").replace("$2", ":cost").replace("$3", ":window")
    return Script(
        text + ";\n",
        count=f"SELECT coalesce(max(used), 0) FROM rate_window WHERE bucket = '{PGBENCH_BUCKET}'",
        # The rate window never ends, so its count is the number of pgbench's calls.
        variables={"bucket": f"{{{PGBENCH_BUCKET}}}", "cost": "{1}", "window": "1 day"},
    )
