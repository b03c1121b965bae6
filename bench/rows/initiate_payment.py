"""A signed `POST /api/v1/initiate-payment`, compared with only its SQL and with the baseline."""

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bench import floor
from bench.comparisons import against_baseline, database_cpu_against_pgbench, rate_against_pgbench
from bench.frame import BASELINE, PRODUCT, Contender, Row, Target, Work
from bench.load import ask, load
from bench.pgbench import Script
from bench.seed import NO_LIMIT
from bench.signed import AMOUNT, CURRENCY, payment_order, payment_orders
from bench.stage import Served, Stage
from manilla.kit.environment import Environment
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.intake import Intake, IntakeOutcome, NewItem, NewRow
from manilla.ledger.transactions import SANDBOX_REMARK
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.initiate import COMPLETE_IN_SANDBOX, PaymentItem
from manilla.payments.payment import NewPayment

CALLERS = 64
PGBENCH_RATE_MIN = 0.45
FLOOR_RATE_MIN = 0.45
BASELINE_TIMES_MIN = 10

LONE_REQUESTS = 1000
STATISTICS_SECONDS = 1.1  # a connection reports its statistics at most once per second

# Each call passes one item directly to the SQL function. Each connection uses a separate rate-limit
# bucket, because otherwise it would wait for other connections' commits. A rejected call divides by
# zero, which ends pgbench. The rate window never ends, so its count is the number of pgbench's
# calls.
CLIENT, REFERENCE, TRX_ID = "<client>", "<reference>", "<trx_id>"
PGBENCH_BUCKETS = "00000000001:sandbox:10.0.0."
ONE_BY_ONE = """\
SELECT 1 / (outcome = 'created')::integer
  FROM payment_initiate(
       (:before_reference::text || gen_random_uuid()::text || :before_trx::text
        || uuidv7()::text || :before_client::text || :client_id::text || :rest::text)::jsonb,
       '1 day');
"""


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    product, baseline = await asyncio.gather(stage.product(), stage.baseline())
    await _check_same_answer(stage, product, baseline)
    trips = await _transactions_for_each(stage, product)
    script = await one_by_one(stage.merchant.id)
    async with stage.pgbench.started(script) as pgbench, floor.started(stage) as least:
        yield Row(
            name="initiate-payment",
            title=f"callers: {CALLERS}",
            contenders=[
                orders(PRODUCT, product, [stage.merchant.sandbox], f"{trips:.2f} transactions"),
                pgbench,
                least,
                orders(BASELINE, baseline, [stage.merchant.sandbox]),
            ],
            comparisons=[
                rate_against_pgbench(Target(PGBENCH_RATE_MIN)),
                database_cpu_against_pgbench(),
                *floor.against_floor(FLOOR_RATE_MIN),
                *against_baseline(Target(BASELINE_TIMES_MIN)),
            ],
        )


def orders(
    name: str,
    served: Served,
    credentials: Sequence[NewCredentials],
    detail: str = "",
    callers: int = CALLERS,
) -> Contender:
    """Creates a contender that sends requests as randomly chosen merchants."""
    merchants = [payment_orders(each) for each in credentials]

    async def run(seconds: float) -> Work:
        requests = (next(random.choice(merchants)) for _ in itertools.count())
        return await load(served.port, requests, callers, seconds)

    return Contender(name, run, served.pid, detail)


async def one_by_one(merchant_id: int) -> Script:
    text = await overheard("payment_initiate", _payment(merchant_id), _item())
    parts = re.split(f"{REFERENCE}|{TRX_ID}|{CLIENT}", text)
    names = ("before_reference", "before_trx", "before_client", "rest")
    return Script(
        ONE_BY_ONE,
        count=f"""
            SELECT coalesce(sum(used), 0)::bigint FROM rate_window
             WHERE bucket LIKE '{PGBENCH_BUCKETS}%'""",
        variables=dict(zip(names, parts, strict=True)),
    )


async def overheard(function: str, row: NewRow, item: NewItem) -> str:
    """Captures the arguments that Manilla passes to the SQL function, for pgbench to reuse."""
    handed: list[Any] = []

    class Listener:
        def keep_connection(self, *, writes: bool) -> Any:
            return self

        async def records(self, _sql: str, *values: Any) -> list[tuple[Any, ...]]:
            handed.extend(values)
            return [(0, IntakeOutcome.CREATED, None, None, None, 1, 1)]

    listener: Any = Listener()
    await Intake(listener, function).take(row, item, RateTicket(item.bucket, item.rate_limit))
    return bytes(handed[0]).decode()


def _payment(merchant_id: int) -> NewPayment:
    """Builds the payment that Manilla creates from a benchmark request."""
    now = datetime.now(UTC)
    order = msgspec.json.decode(payment_order(REFERENCE))
    return NewPayment(
        merchant_id=merchant_id,
        trx_id=TRX_ID,
        environment=Environment.SANDBOX,
        ref_trx=REFERENCE,
        currency=CURRENCY,
        amount_minor=AMOUNT * 100,
        commission_minor=AMOUNT * 100 * 15 // 1000,
        commission_bearer=CommissionBearer.CUSTOMER,
        description=order["description"],
        customer_name=order["customer_name"],
        customer_email=order["customer_email"],
        ipn_url=order["ipn_url"],
        success_redirect=order["success_redirect"],
        cancel_redirect=order["cancel_redirect"],
        remarks=SANDBOX_REMARK,
        created_at=now,
        expires_at=now + timedelta(minutes=30),
    )


def _item() -> PaymentItem:
    return PaymentItem(
        bucket=PGBENCH_BUCKETS + CLIENT,
        rate_limit=int(NO_LIMIT),
        covers_minor=0,
        job_kind=COMPLETE_IN_SANDBOX,
        due_in_seconds=5,
    )


async def _check_same_answer(stage: Stage, *contenders: Served) -> None:
    """Checks that all contenders return the same gateways, commission and amounts."""
    requests = payment_orders(stage.merchant.sandbox)
    infos = []
    for served in contenders:
        info = msgspec.json.decode(await ask(served.port, next(requests)))["info"]
        assert info["merchant_payment_method_ids"], "no gateway is available"
        infos.append({**info, "ref_trx": None})
    assert infos[0] == infos[1], f"The responses differ: {infos}"


async def _transactions_for_each(stage: Stage, served: Served) -> float:
    """Returns the database transactions per request of a single caller, including reads.

    The result is one, plus a little for the change watch, which polls four times a second. For
    2,000 requests, pg_stat_statements counted 2,000 statements, and 28 by the change watch.
    """
    requests = payment_orders(stage.merchant.sandbox)

    async def seen() -> int:
        # A connection that was idle for a second reports all its statistics with its next
        # statement.
        await asyncio.sleep(STATISTICS_SECONDS)
        await ask(served.port, next(requests))
        count: int = await stage.db.value(
            "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        )
        return count

    before = await seen()
    work = await load(served.port, itertools.islice(requests, LONE_REQUESTS), 1, 60)
    return (await seen() - before) / (work.done + 1)
