"""Measures how many settlements and credits per second a single merchant's wallet takes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench import merchants, seed, worker
from bench.frame import Comparison, Contender, Row, Target, Work
from bench.rows import disburse
from bench.server import COMMITS
from bench.stage import Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids

DATABASE = "one_merchant"
RATE_MIN = 1000
ROUNDS = 3
NUMBER = 30_000  # more transactions than the product can end during the measurement
AT_ONCE = 500
STEPS = {"payouts settled": "deliver", "payments credited": "credit"}

PAYMENTS = """
    INSERT INTO payment (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor,
           commission_minor, commission_bearer, description, customer_name, customer_email,
           ipn_url, success_redirect, cancel_redirect, allow_payment_methods, is_legacy, expires_at)
    SELECT $1, id, 'production', id, 'pending', 'NGN', 100000, 0, 'customer',
           'Two chairs and a table', 'Ada Obi', 'ada@example.com', 'https://shop.example/ipn',
           'https://shop.example/thanks', 'https://shop.example/cart', '{}', false,
           now() + interval '1 hour'
      FROM unnest($2::text[]) AS id"""
CHARGES = """
    INSERT INTO charge (merchant_id, reference, trx_id, number, method_code, provider, currency,
                        amount_minor, status)
    SELECT $1, id || '-1', id, 1, 'providera-ngn', 'providera', 'NGN', 100000, 'open'
      FROM unnest($2::text[]) AS id"""


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    await _seed(stage)
    async with worker.started("bench.workers.settle", stage.environment(DATABASE)) as product:
        contenders = [
            _contender(
                stage, name + condition, microseconds, product.contender(name, {"step": step})
            )
            for name, step in STEPS.items()
            for condition, microseconds in COMMITS.items()
        ]
        for each in contenders:
            await each.run(stage.plan.warm_seconds)
        yield Row(
            name="one-merchant",
            title="as many at once as a worker runs",
            contenders=contenders,
            comparisons=[_rate(each.name) for each in contenders],
            rounds=ROUNDS,
        )


def _contender(stage: Stage, name: str, microseconds: int, settling: Contender) -> Contender:
    async def run(seconds: float) -> Work:
        async with stage.server.commits_of(microseconds):
            return await settling.run(seconds)

    return Contender(name, run, settling.pid)


def _rate(name: str) -> Comparison:
    return Comparison(f"a second: {name}", lambda blocks: blocks[name].rate, Target(RATE_MIN))


async def _seed(stage: Stage) -> None:
    await stage.server.add_database(DATABASE)
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    db = await Database.open(
        stage.server.url(DATABASE), size=1, name="bench", statement_seconds=300
    )
    try:
        await seed.product(db, keyring)
        seeded = await merchants.add(db, keyring, 1, Environment.PRODUCTION)
        for _ in range(NUMBER // AT_ONCE):
            await disburse.take(db, seeded, AT_ONCE)
        ids = [trx_ids.new(seeded[0].id) for _ in range(NUMBER)]
        for statement in (PAYMENTS, CHARGES):
            await db.execute(statement, seeded[0].id, ids)
    finally:
        await db.close()
