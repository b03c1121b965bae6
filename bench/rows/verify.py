"""Signed `GET` requests for existing transactions, compared with creating a transaction.

The transactions belong to a few merchants. Both types of requests choose among these merchants.
"""

import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from bench import floor
from bench.comparisons import cost
from bench.frame import PRODUCT, Contender, Row, Work
from bench.load import ask, load
from bench.merchants import Seeded
from bench.rows import initiate_payment, initiate_payout
from bench.signed import signed
from bench.stage import Served, Stage

CALLERS = 64
MERCHANTS = 20
EACH_MIN = 100  # minimum number of transactions per merchant
INITIATE = "initiate"
COST_MAX = 0.6

# Maps a merchant's transaction ids to the URL paths to request.
Paths = Callable[[Sequence[str]], Sequence[str]]


def payments(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return read(stage, "verify-payment", "payment", {PRODUCT: _each("/api/v1/verify-payment/")})


def payouts(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return read(stage, "verify-payout", "payout", {PRODUCT: _each("/api/v1/verify-payout/")})


def _each(path: str) -> Paths:
    return lambda trx_ids: [path + trx_id for trx_id in trx_ids]


@asynccontextmanager
async def read(
    stage: Stage, name: str, table: str, reads: Mapping[str, Paths]
) -> AsyncIterator[Row]:
    """Compares each contender's read requests with requests that create payments or payouts."""
    served = await stage.product()
    seeded, initiate = await _transactions(stage, served, table)
    trx_ids = {each.id: await _ids(stage, table, each) for each in seeded}
    contenders = [
        await reader(contender, served, {each: paths(trx_ids[each.id]) for each in seeded})
        for contender, paths in reads.items()
    ]
    async with floor.started(stage) as least:
        yield Row(
            name=name,
            title=f"callers: {CALLERS}",
            contenders=[*contenders, initiate, least],
            comparisons=[
                cost(f"{name} / initiate", PRODUCT, INITIATE, COST_MAX),
                *(cost(f"{each} / initiate", each, INITIATE) for each in reads if each != PRODUCT),
                *floor.against_floor(),
            ],
        )


async def _transactions(stage: Stage, served: Served, table: str) -> tuple[list[Seeded], Contender]:
    """Creates merchants with enough transactions. Also returns the contender that creates them."""
    seeded, method = await initiate_payout.funded_merchants(stage, MERCHANTS)
    if table == "payment":
        credentials = [each.credentials for each in seeded]
        initiate = initiate_payment.orders(INITIATE, served, credentials)
    else:
        initiate = initiate_payout.orders(INITIATE, served, seeded, method)
    while min([len(await _ids(stage, table, each)) for each in seeded]) < EACH_MIN:
        await initiate.run(1)
    return seeded, initiate


async def _ids(stage: Stage, table: str, merchant: Seeded) -> list[str]:
    found: list[str] = await stage.db.value(
        f"SELECT coalesce(array_agg(trx_id), '{{}}') FROM {table} WHERE merchant_id = $1",
        merchant.id,
    )
    return found


async def reader(
    name: str,
    served: Served,
    paths: Mapping[Seeded, Sequence[str]],
    callers: int = CALLERS,
) -> Contender:
    def requests() -> Iterator[bytes]:
        merchants = list(paths)
        while True:
            merchant = random.choice(merchants)
            yield signed(merchant.credentials, "GET", random.choice(paths[merchant]))

    async def run(seconds: float) -> Work:
        return await load(served.port, requests(), callers, seconds)

    await ask(served.port, next(requests()))
    return Contender(name, run, served.pid)
