"""The cost of a payment after ten thousand and after a million others. It must not grow."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import msgspec

from bench import seed
from bench.comparisons import growth
from bench.frame import PGBENCH, PRODUCT, Contender, Row, Target
from bench.pgbench import Pgbench, Script
from bench.rows.initiate_payment import one_by_one, orders
from bench.stage import Served, Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.merchants.merchants import NewMerchant

SMALL, LARGE = 10_000, 1_000_000
SHOWN = {SMALL: "10⁴", LARGE: "10⁶"}
TIME_MAX = 1.15
PGBENCH_CLIENTS = 8  # the same for both databases, and enough that the disk is not the limit

# Two thirds of the earlier payments belong to the measured merchant and the rest to ten thousand
# others, so that a query plan for the average merchant would show. They are finished, so they have
# no jobs. Their ids are ordered by time, and their references are random.
EARLIER_PAYMENTS = """
    INSERT INTO payment (
           merchant_id, trx_id, environment, ref_trx, status, currency, amount_minor,
           commission_minor, commission_bearer, description, customer_name, customer_email,
           ipn_url, success_redirect, cancel_redirect, allow_payment_methods, is_legacy,
           remarks, created_at, updated_at, expires_at)
    SELECT {merchant_id} + CASE WHEN n % 3 = 0 THEN 1 + n % 10000 ELSE 0 END,
           'TXN' || lpad(n::text, 30, '0'), 'sandbox', md5(n::text), 'success', 'NGN', 100000,
           1500, 'customer', 'Two chairs and a table', 'Ada Obi', 'ada@example.com',
           'https://shop.example/ipn', 'https://shop.example/thanks?order=7',
           'https://shop.example/cart', '{{}}', false,
           'SANDBOX_TRANSACTION', moment, moment, moment + interval '30 minutes'
      FROM generate_series(1, {number}) AS n,
           LATERAL (SELECT now() - ({number} - n) * interval '1 second' AS moment) AS m"""


class Measured(msgspec.Struct, frozen=True):
    """How to call Manilla and pgbench on one database."""

    orders: Callable[[str, Served], Contender]
    one_by_one: Script


class Growing(msgspec.Struct, frozen=True):
    """The measured operation, and the rows that exist before it."""

    name: str
    earlier: str  # SQL that creates this many rows, of the measured merchant and of others
    prepare: Callable[[Stage, Database, NewMerchant], Awaitable[Measured]]


def opened(stage: Stage) -> AbstractAsyncContextManager[Row]:
    return grown(stage, Growing("initiate-payment", EARLIER_PAYMENTS, _payments))


async def _payments(stage: Stage, _db: Database, merchant: NewMerchant) -> Measured:
    sandbox = [stage.merchant.sandbox]
    return Measured(
        lambda name, served: orders(name, served, sandbox), await one_by_one(merchant.id)
    )


@asynccontextmanager
async def grown(stage: Stage, growing: Growing) -> AsyncIterator[Row]:
    target = Target(TIME_MAX, at_most=True)
    async with AsyncExitStack() as stack:
        small = await _contenders(stage, stack, growing, SMALL)
        large = await _contenders(stage, stack, growing, LARGE)
        yield Row(
            name=f"{growing.name}-growth",
            title="",
            # Both run at the same time, so that they run under the same conditions.
            contenders=[small[PRODUCT], large[PRODUCT], small[PGBENCH], large[PGBENCH]],
            comparisons=[
                comparison
                for kind in (PRODUCT, PGBENCH)
                for comparison in growth(
                    f"{kind} {SHOWN[LARGE]} / {SHOWN[SMALL]}",
                    small[kind].name,
                    large[kind].name,
                    target,
                )
            ],
        )


async def _contenders(
    stage: Stage, stack: AsyncExitStack, growing: Growing, number: int
) -> dict[str, Contender]:
    """Manilla and pgbench on a database with this many rows."""
    database, server = f"{growing.name}-after-{number}".replace("-", "_"), stage.server
    await server.add_database(database)
    db = await Database.open(server.url(database), size=1, name="bench")
    stack.push_async_callback(db.close)
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    merchant = await seed.product(db, keyring, stage.merchant.sandbox)
    earlier = growing.earlier.format(merchant_id=merchant.id, number=number)
    await server.execute(database, earlier)
    measured = await growing.prepare(stage, db, merchant)
    served = await stage.product(database)
    pgbench = Pgbench(server.cluster, db, server.folder, [PGBENCH_CLIENTS], database)
    started = pgbench.started(measured.one_by_one, f"{PGBENCH} after {SHOWN[number]}")
    return {
        PRODUCT: measured.orders(f"{PRODUCT} after {SHOWN[number]}", served),
        PGBENCH: await stack.enter_async_context(started),
    }
