"""Compares the CPU time of each operation on a short and on a long history. It must not grow."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import msgspec

from bench import history, merchants, worker
from bench.comparisons import buffers, cost, database_cpu
from bench.frame import Contender, Row, Work
from bench.history import LARGE, SMALL, History
from bench.load import load
from bench.merchants import Seeded
from bench.rows import (
    disburse,
    initiate_payment,
    initiate_payout,
    notify,
    reconcile,
    search,
    verify,
)
from bench.stage import Stage
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.people.roles import Realm

COST_MAX = 1.1
QUIET = {"autovacuum": "off"}  # vacuuming at random times would change the result
# A worker of autovacuum that has already started ignores the setting.
CANCEL_VACUUMING = """
    SELECT pg_cancel_backend(pid) FROM pg_stat_activity
     WHERE backend_type = 'autovacuum worker'"""
WITHOUT_IMAGES = {"full_page_writes": "off"}
CALLERS = 8  # with more callers, a busy machine rejects requests, and batches vary in size
PAYING = 400  # number of merchants with more pending payouts than the benchmark completes
SETTLEMENT_ACCOUNT = """
    INSERT INTO settlement_account (merchant_id, environment, currency, method_code, beneficiary,
           bank_name, account_name, set_by, effective_at)
    SELECT $1, 'sandbox', 'NGN', 'providera_ngn_transfer',
           '{"bank_code": "058", "account_number": "0123456789"}', 'GTBank', 'ADA OBI', 'Ada', now()
     WHERE NOT EXISTS (SELECT FROM settlement_account WHERE merchant_id = $1)"""
CHECK_ROUNDS = 3 if LARGE <= 1_000_000 else 1  # a check of 10⁷ transactions takes minutes
READ = 1000  # number of transactions that the benchmark reads in rotation
# Creates the contender for one operation on the given history's database.
Measured = Callable[[Stage, History, str], AbstractAsyncContextManager[Contender]]
Prepared = Callable[[Stage, int], Awaitable[History]]


def _row(
    operation: str,
    measured: Measured,
    *,
    prepared: Prepared = history.prepared,
    rounds: int | None = None,
    images: bool = True,
) -> Callable[[Stage], AbstractAsyncContextManager[Row]]:
    """Returns a row that starts right after a checkpoint.

    The first change of each page after a checkpoint writes an image of the whole page to the WAL.
    In a long history, an operation that writes to indexes in random order changes more pages that
    were not changed before. Without the images, the row shows the other reasons for growth.
    """
    settings = QUIET if images else QUIET | WITHOUT_IMAGES

    @asynccontextmanager
    async def opened(stage: Stage) -> AsyncIterator[Row]:
        # Loading a history ends with the default settings, so the row's settings come afterwards.
        pasts = [await prepared(stage, number) for number in (SMALL, LARGE)]
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(stage.server.settings(settings))
            few, many = [
                await stack.enter_async_context(measured(stage, past, f"after {past.number:,}"))
                for past in pasts
            ]
            await stage.server.execute("postgres", CANCEL_VACUUMING)
            await stage.server.execute("postgres", "CHECKPOINT")
            shown = f"{LARGE:,} / {SMALL:,}"
            yield Row(
                name=f"growth-{operation}",
                title="",
                contenders=[few, many],
                comparisons=[
                    cost(shown, many.name, few.name, COST_MAX),
                    database_cpu(shown, many.name, few.name),
                    buffers(shown, many.name, few.name),
                ],
                rounds=rounds,
                counted=True,
            )

    return opened


@asynccontextmanager
async def _initiate_payment(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
    served = await stage.product(past.database)
    yield initiate_payment.orders(name, served, [past.merchant.credentials], callers=CALLERS)


async def _by_few_callers(port: int, requests: Iterator[bytes], seconds: float) -> Work:
    return await load(port, requests, CALLERS, seconds)


@asynccontextmanager
async def _initiate_payout(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
    served = await stage.product(past.database)
    async with _database(stage, past) as db:
        method = await initiate_payout.charged_method(db)
    yield initiate_payout.orders(name, served, [past.merchant], method, _by_few_callers)


def _verify(table: str, prefix: str) -> Measured:
    @asynccontextmanager
    async def contender(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
        async with _database(stage, past) as db:
            trx_ids = await _sample(db, past, table, prefix)
        paths = [f"/api/v1/verify-{table}/{trx_id}" for trx_id in trx_ids]
        served = await stage.product(past.database)
        yield await verify.reader(name, served, {past.merchant: paths}, CALLERS)

    return contender


async def _sample(db: Database, past: History, table: str, prefix: str) -> list[str]:
    """Returns ids of the merchant's transactions, sampled evenly from the whole history."""
    numbers = range(1, past.number, max(1, past.number // READ))
    references = [f"{prefix}-{hashlib.md5(str(each).encode()).hexdigest()}" for each in numbers]
    found: list[str] = await db.value(
        f"""
        SELECT array_agg(trx_id) FROM {table}
         WHERE merchant_id = $1 AND environment = 'sandbox' AND ref_trx = ANY ($2)""",
        past.merchant.id,
        references,
    )
    return found


def _list(table: str) -> Measured:
    @asynccontextmanager
    async def contender(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
        served = await stage.product(past.database)
        yield await verify.reader(name, served, {past.merchant: [f"/api/v1/{table}s"]}, CALLERS)

    return contender


def _search(realm: Realm) -> Measured:
    @asynccontextmanager
    async def contender(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
        yield (await search.searches(stage, past, realm, name))[-1]

    return contender


def _claim(step: str) -> Measured:
    @asynccontextmanager
    async def contender(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
        async def vacuum() -> None:
            # As autovacuum does when 2% of the jobs have changed, which a block exceeds.
            await stage.server.execute(past.database, "VACUUM job")

        async with notify.waiting(stage, past.number) as claimer:
            yield msgspec.structs.replace(claimer.contender(name, {"step": step}), prepare=vacuum)

    return contender


async def _without_history(stage: Stage, number: int) -> History:
    """Describes the database that `notify.waiting` creates."""
    merchant = Seeded(stage.merchant.id, stage.merchant.sandbox)
    return History(notify.database_of(number), number, merchant, [])


@asynccontextmanager
async def _deliver(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
    async with notify.delivering(stage, past.database, past.notified[0].id) as worker:
        yield worker.contender(name, {})


def _settle(step: str, prepare: Callable[[Stage, History], Awaitable[None]]) -> Measured:
    @asynccontextmanager
    async def contender(stage: Stage, past: History, name: str) -> AsyncIterator[Contender]:
        await prepare(stage, past)
        environment = stage.environment(past.database)
        async with worker.started("bench.workers.settle", environment) as product:
            yield product.contender(name, {"step": step, "merchant_id": past.merchant.id})

    return contender


async def _add_pending_payouts(stage: Stage, past: History) -> None:
    """Adds pending payouts of new merchants, which the benchmark completes."""
    keyring = Keyring([crypto.decode_key(stage.master_key)])
    async with _database(stage, past) as db:
        added = await merchants.add(db, keyring, PAYING, Environment.PRODUCTION)
        await disburse.take(db, added)


async def _add_settlement_account(stage: Stage, past: History) -> None:
    async with _database(stage, past) as db:
        await db.execute(SETTLEMENT_ACCOUNT, past.merchant.id)


async def _leave(stage: Stage, past: History) -> None:
    """Changes nothing."""


@asynccontextmanager
async def _database(stage: Stage, past: History) -> AsyncIterator[Database]:
    db = await Database.open(
        stage.server.url(past.database), size=1, name="bench", statement_seconds=900
    )
    try:
        yield db
    finally:
        await db.close()


READS: Mapping[str, Measured] = {
    "verify-payment": _verify("payment", "order"),
    "verify-payout": _verify("payout", "payout"),
    "list-payments": _list("payment"),
    "list-payouts": _list("payout"),
    "search-dashboard": _search(Realm.DASHBOARD),
    "search-console": _search(Realm.CONSOLE),
    "settlement": _settle("offer", _add_settlement_account),
}
INITIATING: Mapping[str, Measured] = {
    "initiate-payment": _initiate_payment,
    "initiate-payout": _initiate_payout,
}
WRITES: Mapping[str, Measured] = {
    **INITIATING,
    "notify": _deliver,
    "complete-payout": _settle("deliver", _add_pending_payouts),
}
CLAIMS: Mapping[str, Measured] = {"claim": _claim("claim"), "release": _claim("release")}
ROWS = {
    **{
        f"growth-{name}": _row(name, each, prepared=_without_history, images=False)
        for name, each in CLAIMS.items()
    },
    **{f"growth-{name}": _row(name, each, images=False) for name, each in WRITES.items()},
    **{
        f"growth-{name}-after-checkpoint": _row(f"{name}-after-checkpoint", each)
        for name, each in INITIATING.items()
    },
    **{f"growth-{name}": _row(name, each) for name, each in READS.items()},
    # The check reads every transaction, so its cost is compared per transaction.
    "growth-ledger-check": _row("ledger-check", _settle("check", _leave), rounds=CHECK_ROUNDS),
    "growth-reconcile": reconcile.grown,
}
