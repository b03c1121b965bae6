"""Measures event delivery to webhook endpoints, with and without an unresponsive endpoint."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bench import merchants, seed, worker
from bench.frame import PRODUCT, Comparison, Contender, Row, Target
from bench.rows.disburse import rate, receiver, silent_port
from bench.stage import Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.notify.endpoints import changes
from manilla.notify.endpoints.endpoint import EndpointTerms

RATE_MIN, RATIO_MIN = 3000, 0.9
MERCHANTS, EVENTS = 200, 40_000
DEAD = "beside a dead endpoint"

# A trigger inserts the deliveries and their jobs.
EVENT = """
    INSERT INTO notification (merchant_id, id, environment, trx_id, event, type, status, url, body,
                              state)
    SELECT {first} + n % {merchants}, 'msg_' || lpad(n::text, 25, '0'), 'sandbox',
           'TXN' || lpad(n::text, 30, '0'), 'payout', 'payout.completed', 'completed', '',
           convert_to('{{"event":"payout","data":{{"amount":1000.00,"currency_code":"NGN",'
                      '"description":"Two chairs and a table","environment":"sandbox"}},'
                      '"message":"Payout Completed","status":"completed"}}', 'utf8'), 'not_sent'
      FROM generate_series(1, {number}) AS n"""


@asynccontextmanager
async def deliveries(stage: Stage) -> AsyncIterator[Row]:
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(receiver(stage, "shop"))
        silent = stack.enter_context(silent_port())
        alone = await stack.enter_async_context(_worker(stage, PRODUCT, "endpoints", port))
        beside = await stack.enter_async_context(
            _worker(stage, DEAD, "endpoints_dead", port, silent)
        )
        yield Row(
            name="endpoints",
            title=f"merchants: {MERCHANTS}",
            contenders=[alone, beside],
            comparisons=[
                rate("events a second", Target(RATE_MIN)),
                Comparison(
                    "rate: beside a dead endpoint / alone",
                    lambda blocks: blocks[DEAD].rate / blocks[PRODUCT].rate,
                    Target(RATIO_MIN),
                ),
            ],
        )


@asynccontextmanager
async def _worker(
    stage: Stage, name: str, database: str, port: int, silent: int | None = None
) -> AsyncIterator[Contender]:
    await stage.server.add_database(database)
    first = await _endpoints(stage, database, port, silent)
    number = MERCHANTS + (silent is not None)  # the last merchant's endpoint never responds
    event = EVENT.format(first=first, merchants=number, number=EVENTS)
    await stage.server.execute(database, event)
    async with worker.started("bench.workers.endpoints", stage.environment(database)) as product:
        yield product.contender(name, {})


async def _endpoints(stage: Stage, database: str, port: int, silent: int | None) -> int:
    """Creates merchants with one endpoint each, and returns the first merchant's id."""
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(stage.server.url(database), size=1, name="bench")
    try:
        await seed.product(db, keyring)
        seeded = await merchants.add(db, keyring, MERCHANTS + 1, Environment.SANDBOX)
        urls = [f"http://127.0.1.{1 + n}:{port}/events" for n in range(MERCHANTS)]
        urls += [] if silent is None else [f"http://127.0.0.1:{silent}/events"]
        # Concurrently, because each call waits until all processes have refreshed their caches.
        await asyncio.gather(
            *(
                changes.create(
                    db,
                    keyring,
                    Tenant(merchant.id, Environment.SANDBOX),
                    EndpointTerms(url=url, events=["*"]),
                )
                for merchant, url in zip(seeded, urls, strict=False)
            )
        )
    finally:
        await db.close()
    return seeded[0].id
