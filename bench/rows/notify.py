"""Notifications: how many one worker delivers, and whether claiming them slows as more wait."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import merchants, seed, worker
from bench.comparisons import growth
from bench.frame import PRODUCT, Row, Target
from bench.rows.disburse import rate, receiver
from bench.stage import Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.ledger.posting import Environment

RATE_MIN = 1000
MERCHANTS = 200
NOTIFICATIONS = 40_000  # more than can be delivered while it is measured
FEW, MANY = 1000, 100_000
SHOWN = {FEW: "10³", MANY: "10⁵"}
CLAIM_TIME_MAX = 1.2

# Each merchant listens on an address of its own, as merchants do: all of them lead to the receiver.
NOTIFY = """
    WITH new AS (
        SELECT {first} + n % {merchants} AS merchant_id, 'TXN' || lpad(n::text, 30, '0') AS trx_id,
               'http://127.0.1.' || 1 + n % {merchants} || ':{port}/ipn' AS url, n
          FROM generate_series(1, {number}) AS n
    ), notifications AS (
        INSERT INTO notification (merchant_id, id, environment, trx_id, event, status, url, body)
        SELECT merchant_id, 'msg_' || lpad(n::text, 25, '0'), 'sandbox', trx_id, 'payout',
               'completed', url,
               convert_to(
                   '{{"data":{{"trx_id":"' || trx_id || '","amount":1000.00,"currency_code":"NGN",'
                   '"description":"Two chairs and a table","environment":"sandbox"}},'
                   '"message":"Payout completed","status":"completed"}}', 'utf8')
          FROM new)
    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT merchant_id, 'notify', trx_id, now() FROM new"""

# Half of what waits is one merchant's.
WAIT = """
    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT 1 + CASE WHEN n % 2 = 0 THEN 0 ELSE n / 2 % {merchants} END, 'notify',
           'TXN' || lpad(n::text, 30, '0'), now() - ({number} - n) * interval '1 millisecond'
      FROM generate_series(1, {number}) AS n"""


@asynccontextmanager
async def deliveries(stage: Stage) -> AsyncIterator[Row]:
    database = "notify"
    async with receiver(stage, "shop") as port:
        await stage.server.add_database(database)
        first = await _merchants(stage, database)
        notify = NOTIFY.format(first=first, merchants=MERCHANTS, number=NOTIFICATIONS, port=port)
        await stage.server.execute(database, notify)
        async with worker.started("bench.workers.notify", stage.environment(database)) as product:
            yield Row(
                name="notify",
                title=f"merchants: {MERCHANTS}",
                contenders=[product.contender(PRODUCT, {})],
                comparisons=[rate("notifications a second", Target(RATE_MIN))],
            )


@asynccontextmanager
async def claims(stage: Stage) -> AsyncIterator[Row]:
    names = {}
    for number in (FEW, MANY):
        names[number] = f"notify_{number}"
        await stage.server.add_database(names[number])
        wait = WAIT.format(merchants=MERCHANTS, number=number)
        await stage.server.execute(names[number], wait)
    module = "bench.workers.claim"
    async with (
        worker.started(module, stage.environment(names[FEW])) as few,
        worker.started(module, stage.environment(names[MANY])) as many,
    ):
        contenders = [
            few.contender(f"{SHOWN[FEW]} waiting", {}),
            many.contender(f"{SHOWN[MANY]} waiting", {}),
        ]
        yield Row(
            name="notify-claim",
            title="",
            contenders=contenders,
            comparisons=growth(
                f"claim of {SHOWN[MANY]} / {SHOWN[FEW]}",
                contenders[0].name,
                contenders[1].name,
                Target(CLAIM_TIME_MAX, at_most=True),
            ),
        )


async def _merchants(stage: Stage, database: str) -> int:
    """The first one's number."""
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(stage.server.url(database), size=1, name="bench")
    try:
        await seed.product(db, keyring)
        seeded = await merchants.add(db, keyring, MERCHANTS, Environment.SANDBOX)
    finally:
        await db.close()
    return seeded[0].id
