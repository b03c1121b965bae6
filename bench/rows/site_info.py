"""A signed `GET /api/v1/site-info`: what every request of a merchant costs before its own work."""

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench import baseline_seed
from bench.comparisons import (
    against_baseline,
    database_cpu_against_pgbench,
    rate_against_pgbench,
    share_of_cpu,
)
from bench.frame import BASELINE, PRODUCT, Contender, Row, Target, Work
from bench.load import load
from bench.pgbench import Script
from bench.stage import Served, Stage
from manilla.api.authenticate import sign
from manilla.kit import ratelimit
from manilla.kit.ratelimit import WINDOW_SECONDS
from manilla.merchants.credentials import NewCredentials

PATH = "/api/v1/site-info"
WITHOUT_LIMIT = "product without the rate limit"
LIMIT_SHARE_MAX = 0.1


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    await baseline_seed.seed(stage)
    script = await _counting(f"{stage.merchant.id}:sandbox:127.0.0.1")
    yield Row(
        name="site-info",
        title=f"signed GET {PATH}",
        contenders=[
            _served(stage, PRODUCT, await stage.product()),
            await stage.pgbench.contender("site-info", script, clients=8 if stage.quick else None),
            _served(stage, BASELINE, await stage.baseline()),
            _served(stage, WITHOUT_LIMIT, await stage.product_without_limit()),
        ],
        comparisons=[
            rate_against_pgbench(),
            database_cpu_against_pgbench(),
            *against_baseline(),
            share_of_cpu(
                "the rate limit's share of the CPU",
                WITHOUT_LIMIT,
                Target(LIMIT_SHARE_MAX, at_most=True),
            ),
        ],
    )


def _served(stage: Stage, name: str, served: Served) -> Contender:
    async def run(seconds: float) -> Work:
        request = _signed(stage.merchant.sandbox)
        return await load(served.port, itertools.repeat(request), seconds)

    return Contender(name, run, served.pid)


def _signed(credentials: NewCredentials) -> bytes:
    now = int(time.time())
    signature = sign(credentials.api_secret.encode(), now, "GET", PATH, b"")
    return (
        f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
        f"X-Environment: sandbox\r\nX-Merchant-Key: {credentials.merchant_key}\r\n"
        f"X-API-Key: {credentials.api_key}\r\nX-Timestamp: {now}\r\n"
        f"X-Signature: {signature}\r\n\r\n"
    ).encode()


async def _counting(bucket: str) -> Script:
    """The product's own statement, overheard, so that the two cannot drift apart."""
    overheard: list[str] = []

    class Listener:
        async def rows(self, _kind: Any, sql: str, *_values: Any) -> list[Any]:
            overheard.append(sql)
            return []

    listener: Any = Listener()
    await ratelimit._add(listener, {bucket: 1})
    text = overheard[0].replace("$1", ":bucket").replace("$2", ":cost").replace("$3", ":window")
    variables = {
        "bucket": f"{{{bucket}}}",
        "cost": "{1}",
        "window": f"{WINDOW_SECONDS} seconds",
    }
    return Script(text + ";\n", variables)
