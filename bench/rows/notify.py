"""Measures how fast one worker delivers notifications, and claims them from a long queue."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import merchants, seed, worker
from bench.comparisons import growth
from bench.frame import PRODUCT, Comparison, Row, Target
from bench.rows.disburse import rate, receiver
from bench.stage import Stage
from bench.worker import Worker
from bench.workers import UNCOUNTED_URL
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import SUPERUSER
from manilla.kit.environment import Environment

RATE_MIN = 4500
MERCHANTS = 200
NOTIFICATIONS = 80_000  # more than the worker can deliver during the measurement
FEW, MANY, MOST = 1000, 100_000, 1_000_000
SHOWN = {FEW: "10³", MANY: "10⁵", MOST: "10⁶"}
CLAIM_TIME_MAX = 1.2

# Each merchant has a separate URL, as in practice. All URLs lead to the same receiver.
NOTIFY = """
    WITH new AS (
        SELECT {first} + n % {merchants} AS merchant_id, 'TXN' || lpad(n::text, 30, '0') AS trx_id,
               'http://127.0.1.' || 1 + n % {merchants} || ':{port}/ipn' AS url, n
          FROM generate_series(1, {number}) AS n
    ), notifications AS (
        INSERT INTO notification (merchant_id, id, environment, trx_id, event, type, status, url,
                                  body)
        SELECT merchant_id, 'msg_' || lpad(n::text, 25, '0'), 'sandbox', trx_id, 'payout',
               'payout.completed', 'completed', url,
               convert_to(
                   '{{"data":{{"trx_id":"' || trx_id || '","amount":1000.00,"currency_code":"NGN",'
                   '"description":"Two chairs and a table","environment":"sandbox"}},'
                   '"message":"Payout completed","status":"completed"}}', 'utf8')
          FROM new)
    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT merchant_id, 'notify', trx_id, now() FROM new"""

# Half of the waiting notifications belong to one merchant.
WAIT = """
    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT 1 + CASE WHEN n % 2 = 0 THEN 0 ELSE n / 2 % {merchants} END, 'notify',
           'TXN' || lpad(n::text, 30, '0'), now() - ({number} - n) * interval '1 millisecond'
      FROM generate_series(1, {number}) AS n"""


@asynccontextmanager
async def deliveries(stage: Stage) -> AsyncIterator[Row]:
    database = "notify"
    await stage.server.add_database(database)
    first = await _merchants(stage, database)
    async with delivering(stage, database, first) as product:
        yield Row(
            name="notify",
            title=f"merchants: {MERCHANTS}",
            contenders=[product.contender(PRODUCT, {})],
            comparisons=[rate("notifications a second", Target(RATE_MIN))],
        )


@asynccontextmanager
async def delivering(stage: Stage, database: str, first: int) -> AsyncIterator[Worker]:
    """Starts a worker that delivers notifications of the merchants starting at id `first`."""
    async with receiver(stage, "shop") as port:
        notify = NOTIFY.format(first=first, merchants=MERCHANTS, number=NOTIFICATIONS, port=port)
        await stage.server.execute(database, notify)
        async with worker.started("bench.workers.notify", stage.environment(database)) as product:
            yield product


@asynccontextmanager
async def claims(stage: Stage) -> AsyncIterator[Row]:
    async with contextlib.AsyncExitStack() as stack:
        contenders = {
            number: (await stack.enter_async_context(waiting(stage, number))).contender(
                f"{shown} waiting", {"step": "claim"}
            )
            for number, shown in SHOWN.items()
        }

        def grown(large: int, small: int) -> list[Comparison]:
            name = f"claim of {SHOWN[large]} / {SHOWN[small]}"
            target = Target(CLAIM_TIME_MAX, at_most=True)
            return growth(name, contenders[small].name, contenders[large].name, target)

        yield Row(
            name="notify-claim",
            title="",
            contenders=list(contenders.values()),
            comparisons=[*grown(MANY, FEW), *grown(MOST, MANY)],
        )


def database_of(number: int) -> str:
    return f"notify_{number}"


@asynccontextmanager
async def waiting(stage: Stage, number: int) -> AsyncIterator[Worker]:
    """Creates a worker that claims waiting notifications, and their database if it is missing."""
    database, server = database_of(number), stage.server
    if database not in await server.databases():
        await server.add_database(database)
    if not await server.value("SELECT EXISTS (SELECT FROM job)", database):
        # The indexes are not built last: their pages are as full as if the jobs had arrived one by
        # one.
        await server.execute(database, WAIT.format(merchants=MERCHANTS, number=number))
    await server.execute(database, "VACUUM job")
    uncounted = {UNCOUNTED_URL: server.cluster.url(SUPERUSER, database)}
    environment = stage.environment(database) | uncounted
    async with worker.started("bench.workers.claim", environment) as claimer:
        yield claimer


async def _merchants(stage: Stage, database: str) -> int:
    """Creates merchants and returns the first merchant's id."""
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(stage.server.url(database), size=1, name="bench")
    try:
        await seed.product(db, keyring)
        seeded = await merchants.add(db, keyring, MERCHANTS, Environment.SANDBOX)
    finally:
        await db.close()
    return seeded[0].id
