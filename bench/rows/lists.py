"""A page of 100 payments or payouts, after few and after many others, and compared with verify.

The page must cost the same however long the history is. `MANILLA_BENCH_LISTED` sets the larger
number of rows, such as 10000000.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from bench import seed
from bench.comparisons import growth
from bench.frame import Comparison, Contender, Round, Row, Target, Work
from bench.load import ask, load
from bench.rows.growth import EARLIER_PAYMENTS
from bench.rows.payout_growth import EARLIER_PAYOUTS
from bench.signed import INITIATE, new_reference, payment_order, signed
from bench.stage import Served, Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database

SMALL, LARGE = 10_000, int(os.environ.get("MANILLA_BENCH_LISTED", "1000000"))
ITEMS = 100
CALLERS = 8
GROWTH_MAX, VERIFY_TIMES_MAX = 1.2, 3
VERIFY = "verify-payment"
LISTS = {"payments": EARLIER_PAYMENTS, "payouts": EARLIER_PAYOUTS}


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    small, large = await _contenders(stage, SMALL), await _contenders(stage, LARGE)
    yield Row(
        name="lists",
        title=f"pages of {ITEMS}, callers: {CALLERS}",
        contenders=[*(small[name] for name in LISTS), *large.values()],
        comparisons=[
            comparison
            for name in LISTS
            for comparison in (
                *growth(
                    f"{name} {LARGE:,} / {SMALL:,}",
                    small[name].name,
                    large[name].name,
                    Target(GROWTH_MAX, at_most=True),
                ),
                Comparison(
                    f"time: page of {name} / verify",
                    _times(large[VERIFY].name, large[name].name),
                    Target(VERIFY_TIMES_MAX, at_most=True),
                ),
            )
        ],
    )


def _times(one: str, other: str) -> Callable[[Round], float]:
    return lambda blocks: blocks[one].rate / blocks[other].rate


async def _contenders(stage: Stage, number: int) -> dict[str, Contender]:
    database, server = f"lists_after_{number}", stage.server
    await server.add_database(database)
    db = await Database.open(server.url(database), size=1, name="bench")
    try:
        keyring = Keyring([crypto.decode_key(stage.master_key)])
        merchant = await seed.product(db, keyring, stage.merchant.sandbox)
        for earlier in LISTS.values():
            sql = earlier.format(merchant_id=merchant.id, number=number)
            await server.execute(database, sql)
        await server.execute(database, "VACUUM ANALYZE")
    finally:
        await db.close()
    served = await stage.product(database)
    paths = {name: f"/api/v1/{name}?limit={ITEMS}" for name in LISTS}
    for path in paths.values():
        await _check(stage, served, path)
    paths[VERIFY] = f"/api/v1/verify-payment/{await _payment(stage, served)}"
    return {
        name: _contender(stage, f"{name} after {number:,}", served, path)
        for name, path in paths.items()
    }


async def _check(stage: Stage, served: Served, path: str) -> None:
    answer = await ask(served.port, signed(stage.merchant.sandbox, "GET", path))
    page = msgspec.json.decode(answer)
    assert len(page["data"]) == ITEMS
    assert page["next_cursor"]


async def _payment(stage: Stage, served: Served) -> str:
    order = payment_order(new_reference())
    answer = await ask(served.port, signed(stage.merchant.sandbox, "POST", INITIATE, order))
    created = msgspec.json.decode(answer)
    url: str = created["payment_url"]
    return urlsplit(url).path.rsplit("/", 1)[1]


def _contender(stage: Stage, name: str, served: Served, path: str) -> Contender:
    def requests() -> Iterator[bytes]:
        while True:
            yield signed(stage.merchant.sandbox, "GET", path)

    async def run(seconds: float) -> Work:
        return await load(served.port, requests(), CALLERS, seconds)

    return Contender(name, run, served.pid)
