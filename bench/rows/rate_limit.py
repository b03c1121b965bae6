"""Measures the rate limit's share of the CPU time of a signed request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench.comparisons import share_of_cpu
from bench.frame import PRODUCT, Row, Target
from bench.rows.site_info import CALLERS, signed_calls
from bench.stage import Stage

UNLIMITED = "product without limit"
SHARE_MAX = 0.1


def many_callers(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return _opened(stage, "rate-limit", CALLERS, Target(SHARE_MAX, at_most=True))


def one_caller(stage: Stage) -> AbstractAsyncContextManager[Row]:
    """Measures a single caller. Each of its requests needs a separate statement: the worst case."""
    return _opened(stage, "rate-limit-alone", 1, None)


@asynccontextmanager
async def _opened(
    stage: Stage, name: str, callers: int, target: Target | None
) -> AsyncIterator[Row]:
    product, unlimited = await asyncio.gather(stage.product(), stage.product_without_limit())
    yield Row(
        name=name,
        title=f"callers: {callers}",
        contenders=[
            signed_calls(stage, PRODUCT, product, callers),
            signed_calls(stage, UNLIMITED, unlimited, callers),
        ],
        comparisons=[share_of_cpu("CPU share of the rate limit", UNLIMITED, target)],
        together=True,
    )
