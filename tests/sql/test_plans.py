"""The number of rows that a request reads does not grow with its merchant's history."""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.ledger import clearing
from manilla.ledger.scope import Everyone, Tenant
from manilla.lookup import search
from manilla.proofs import chain, pack, verify
from manilla.proofs.pack import PackOptions
from manilla.proofs.verify import Seal
from manilla.providers.port import EVERY_MOVEMENT
from manilla.reconciliation import balances, importing
from manilla.settings import Settings
from manilla.sql import migrate
from tests.payouts.payout_merchant import setting
from tests.sql.business import Business, State, business, database_in
from tests.sql.plans import PlanLog, Scan

BLOCKS, BLOCK_REQUESTS = 4, 30
DAY_HISTORY = 2_000  # the number of transactions that a merchant made before today
POSTING_HISTORY = 50_000  # more postings than one block range of the index contains

# GROWING tables grow with the number of transactions. Filters on WIDE columns match too many rows.
GROWING = {"payment", "payout", "charge", "refund", "posting", "entry", "timeline", "webhook"}
GROWING |= {"notification", "delivery_attempt", "idempotency", "job", "operator_case"}
GROWING |= {"api_request", "payment_link"}
WIDE = {"merchant_id", "environment", "kind", "provider"}
# Claiming jobs reads the first row of each merchant, one merchant after the other.
CLAIM = re.compile(r"^\(merchant_id > [^)]*\)$")
# Only the tests run this SQL statement.
BY_TESTS = "UPDATE job SET due_at = 'infinity'"


async def _leave_new(_owner: asyncpg.Connection) -> None:
    pass


async def _analyze(owner: asyncpg.Connection) -> None:
    await owner.execute("VACUUM ANALYZE")


async def _lose_statistics(owner: asyncpg.Connection) -> None:
    """Deletes the planner's statistics, which a logical backup does not contain."""
    await owner.execute(
        """
        SELECT pg_clear_relation_stats('public', relname) FROM pg_class
         WHERE relnamespace = 'public'::regnamespace AND relkind = 'r';
        SELECT pg_clear_attribute_stats('public', tablename, attname, false) FROM pg_stats
         WHERE schemaname = 'public'"""
    )


async def _fill(owner: asyncpg.Connection) -> None:
    """Fills a table with many rows, most of which belong to one merchant."""
    await _add_history(owner, merchant_id=1, rows=19_800)
    await _add_history(owner, merchant_id=2, rows=200)
    await owner.execute("VACUUM ANALYZE")


async def _add_history(owner: asyncpg.Connection, *, merchant_id: int, rows: int) -> None:
    """Adds payments and payouts from earlier days. Their ids sort before today's ids."""
    row = f"{merchant_id}, 'OLD{rows}-' || n, 'production', 'OLD{rows}-' || n"
    await owner.execute(
        f"""
        INSERT INTO payment (merchant_id, trx_id, environment, ref_trx, currency, amount_minor,
               commission_minor, commission_bearer, ipn_url, allow_payment_methods, is_legacy,
               expires_at)
        SELECT {row}, 'NGN', 1000, 0, 'customer', '', '{{}}', false, now()
          FROM generate_series(1, {rows}) AS n;
        INSERT INTO payout (merchant_id, trx_id, environment, ref_trx, status, currency,
               amount_minor, fee_minor, method_id, method_code, method_name, beneficiary, ipn_url)
        SELECT {row}, 'completed', 'NGN', 1000, 0, 1, '', '', '{{}}', ''
          FROM generate_series(1, {rows}) AS n"""
    )


STATES = [
    pytest.param(
        _analyze, id="analyzed while empty"
    ),  # In this state, a cached plan once read a merchant's whole history.
    pytest.param(_leave_new, id="new", marks=pytest.mark.long),
    pytest.param(_lose_statistics, id="restored", marks=pytest.mark.long),
    pytest.param(_fill, id="large", marks=pytest.mark.long),
]


@pytest.mark.parametrize("state", STATES)
async def test_every_statement_of_a_payment_and_a_payout_uses_a_full_key(
    cluster: Cluster, settings: Settings, state: State
) -> None:
    on, log = await database_in(cluster, settings, state)
    # The operating manual requires this upgrade after a restore.
    await migrate.upgrade(on.migration_url, on.database_url)
    start = log.position()
    async with business(on) as shop:
        await shop.initiate_and_verify()
        await shop.take_and_refund_a_payment()
        await shop.complete_a_payout()
        await shop.notify()
    scans = log.scans(start)
    assert {"payment", "payout", "charge", "refund", "webhook", "notification", "job"} <= {
        scan.table for scan in scans
    }
    assert [scan for scan in scans if scan.table in GROWING and not _is_narrow(scan)] == []


def _is_narrow(scan: Scan) -> bool:
    columns = set(re.findall(r"\(+(\w+)\)*(?:::\w+)? (?:=|<|>)", scan.condition))
    return bool(columns - WIDE or CLAIM.match(scan.condition) or scan.query.startswith(BY_TESTS))


@pytest.mark.parametrize("state", STATES)
async def test_a_request_reads_as_few_rows_with_a_long_history_as_with_none(
    cluster: Cluster, settings: Settings, state: State
) -> None:
    on, log = await database_in(cluster, settings, state)
    await migrate.upgrade(on.migration_url, on.database_url)
    rows_read = await _rows_read(on, log, Business.initiate_and_verify)
    assert max(rows_read) <= rows_read[0] + BLOCK_REQUESTS, rows_read


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
async def test_a_page_of_a_list_reads_as_few_rows_with_a_long_history_as_with_none(
    cluster: Cluster, settings: Settings, state: State
) -> None:
    on, log = await database_in(cluster, settings, state)
    await migrate.upgrade(on.migration_url, on.database_url)
    rows_read = await _rows_read(on, log, Business.initiate_and_list)
    assert max(rows_read) <= rows_read[0] + BLOCK_REQUESTS, rows_read


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
async def test_initiating_a_transaction_needs_no_table_statistics(
    cluster: Cluster, settings: Settings, state: State
) -> None:
    """Each process caches the query plan, so the plan must be good even without statistics."""
    on, log = await database_in(cluster, settings, state)
    rows_read = await _rows_read(on, log, Business.initiate)
    assert max(rows_read) <= rows_read[0] + BLOCK_REQUESTS, rows_read


@pytest.mark.long
@pytest.mark.parametrize("state", STATES)
async def test_a_limit_of_the_day_reads_only_the_transactions_of_the_day(
    cluster: Cluster, settings: Settings, state: State
) -> None:
    on, log = await database_in(cluster, settings, state)
    async with business(on) as shop:
        await shop.initiate()  # The first call caches the query plans, as in every process.
        owner = await asyncpg.connect(on.migration_url)
        try:
            merchant_id = shop.payer.merchant.new.id
            await _add_history(owner, merchant_id=merchant_id, rows=DAY_HISTORY)
        finally:
            await owner.close()
        start = log.position()
        async with _day_limits(shop):
            await shop.initiate()
    scans = [scan for scan in log.scans(start) if scan.table in ("payment", "payout")]
    of_the_day = [scan for scan in scans if "trx_id >=" in scan.condition]
    assert {scan.table for scan in of_the_day} == {"payment", "payout"}
    assert sum(scan.rows_read for scan in scans) < DAY_HISTORY / 10, scans


@pytest.mark.parametrize("state", STATES)
async def test_a_search_of_all_merchants_reads_only_what_it_finds(
    cluster: Cluster, settings: Settings, state: State
) -> None:
    on, log = await database_in(cluster, settings, state)
    everyone = Everyone(environment=Environment.PRODUCTION)
    async with business(on) as shop:
        await shop.initiate()
        start = log.position()
        assert await search.transactions(shop.db, everyone, "1234567890123", ()) == []
    scans = [scan for scan in log.scans(start) if scan.table in GROWING]
    assert {"payment_reference_hash", "payout_reference_hash", "charge_account_hash"} <= {
        scan.index for scan in scans
    }
    # If a table has only one row, the planner may choose to read it.
    assert sum(scan.rows_read for scan in scans) <= 1, scans


@pytest.mark.parametrize("state", STATES)
async def test_a_merchants_search_finds_the_beginning_of_an_email_address_by_an_index(
    cluster: Cluster, settings: Settings, state: State
) -> None:
    on, log = await database_in(cluster, settings, state)
    async with business(on) as shop:
        await shop.initiate()
        tenant = Tenant(shop.payer.merchant.new.id, Environment.PRODUCTION)
        start = log.position()
        assert await search.transactions(shop.db, tenant, "ngozi.okafor", ()) == []
    scans = [scan for scan in log.scans(start) if "customer_email" in scan.condition]
    assert {scan.index for scan in scans} == {"payment_email_beginning"}


@contextlib.asynccontextmanager
async def _day_limits(shop: Business) -> AsyncIterator[None]:
    services = shop.payer.services
    async with (
        setting(services, "daily_payment_limits_unverified", "NGN:100000000"),
        setting(services, "daily_payout_limits_unverified", "NGN:100000000"),
    ):
        yield


async def test_a_page_of_the_statement_does_not_read_all_postings_of_the_merchant(
    cluster: Cluster, settings: Settings
) -> None:
    on, log = await database_in(cluster, settings, _leave_new)
    async with business(on) as shop:
        await _add_postings(on, merchant_id=shop.payer.merchant.new.id, rows=POSTING_HISTORY)
        for _ in range(2):
            await shop.initiate()
        start = log.position()
        reply = await shop.payer.merchant.get("/api/v1/balance-transactions?limit=1")
    assert len(reply.json["data"]) == 1
    scans = [scan for scan in log.scans(start) if scan.table == "posting"]
    assert scans
    assert sum(scan.rows_read for scan in scans) < POSTING_HISTORY / 2, scans


@pytest.mark.long
async def test_a_link_of_the_hash_chain_does_not_read_earlier_postings(
    cluster: Cluster, settings: Settings
) -> None:
    on, log = await database_in(cluster, settings, _leave_new)
    async with business(on) as shop:
        await _add_postings(on, merchant_id=shop.payer.merchant.new.id, rows=POSTING_HISTORY)
        await chain.extend(shop.db)
        await shop.initiate()
        start = log.position()
        await chain.extend(shop.db)
        assert await shop.db.number("SELECT sum(postings) FROM posting_chain") > POSTING_HISTORY
    scans = [scan for scan in log.scans(start) if scan.table in ("posting", "entry")]
    assert {scan.table for scan in scans} == {"posting", "entry"}
    assert sum(scan.rows_read for scan in scans) < POSTING_HISTORY / 2, scans


@pytest.mark.long
async def test_comparing_a_statement_does_not_read_earlier_movements(
    cluster: Cluster, settings: Settings
) -> None:
    on, log = await database_in(cluster, settings, _leave_new)
    async with business(on) as shop:
        await _add_movements(on, rows=POSTING_HISTORY)
        await chain.extend(shop.db)
        await clearing.add_final_postings(shop.db)
        await importing.compare(shop.db, "providera", datetime.now(UTC), EVERY_MOVEMENT)
        await shop.complete_a_payout()
        start = log.position()
        since = datetime.now(UTC) - timedelta(hours=1)
        await importing.compare(shop.db, "providera", since, EVERY_MOVEMENT)
        await balances.in_our_books(shop.db, "providera")
    scans = [scan for scan in log.scans(start) if scan.table in {*GROWING, "clearing_movement"}]
    assert {"posting", "entry", "clearing_movement"} <= {scan.table for scan in scans}
    assert [scan for scan in scans if scan.rows_read > POSTING_HISTORY / 2] == []


async def _add_movements(on: Settings, *, rows: int) -> None:
    """Adds movements of provider A from last month, which were compared with its statement."""
    owner = await asyncpg.connect(on.migration_url)
    try:
        await owner.execute(
            f"""
            INSERT INTO posting (merchant_id, environment, currency, kind, trx_id, posted_at)
            SELECT n % 100, 'production', 'NGN', 'payment', 'OLD-' || n, now() - interval '30 days'
              FROM generate_series(1, {rows}) AS n;
            INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                               amount_minor)
            SELECT merchant_id, id, line, 'production', 'NGN', account, minor
              FROM posting
             CROSS JOIN LATERAL (VALUES (2, 'clearing:providera', -1), (3, 'bank', 1))
                   AS parts (line, account, minor)
             WHERE trx_id LIKE 'OLD-%';
            INSERT INTO clearing_movement (merchant_id, posting_id, provider, currency, trx_id,
                                           kind, booked_at, amount_minor)
            SELECT merchant_id, id, 'providera', 'NGN', trx_id, 'charge', posted_at, 1
              FROM posting WHERE trx_id LIKE 'OLD-%';
            INSERT INTO statement_day (provider, currency, day, kinds, imported_at)
            SELECT 'providera', 'NGN', (now() - ago)::date, '{{charge}}', now() - ago
              FROM unnest('{{0 days,31 days}}'::interval[]) AS ago;
            -- A line that is still unmatched, from the day before the movements.
            INSERT INTO statement_line (provider, line_id, booked_at, currency, amount_minor, kind)
            VALUES ('providera', 'old', now() - interval '31 days', 'NGN', 5, 'other');
            UPDATE statement_day SET open_lines = 1 WHERE day < (now() - interval '2 days')::date"""
        )
        await owner.execute("VACUUM ANALYZE")
    finally:
        await owner.close()


@pytest.mark.long
async def test_a_pack_with_a_seal_does_not_read_earlier_transactions(
    cluster: Cluster, settings: Settings
) -> None:
    on, log = await database_in(cluster, settings, _leave_new)
    async with business(on) as shop:
        await _add_postings(on, merchant_id=shop.payer.merchant.new.id, rows=POSTING_HISTORY)
        await chain.extend(shop.db)
        seal = Seal.read((await verify.run(on.database_url, [], None)).seal(datetime.now(UTC)))
        await shop.complete_a_payout()
        await chain.extend(shop.db)
        start = log.position()
        found = await pack.collect(on.database_url, PackOptions(seal=seal))
        assert found.facts["postings_verified"] < BLOCKS
    scans = [scan for scan in log.scans(start) if scan.table in GROWING]
    assert {"posting", "entry", "payout", "timeline"} <= {scan.table for scan in scans}
    read_fully = [scan for scan in scans if scan.rows_read > POSTING_HISTORY / 2]
    assert read_fully == []


async def _add_postings(on: Settings, *, merchant_id: int, rows: int) -> None:
    """Adds earlier postings, and summarizes them in the index on their ids, like autovacuum.

    Two thirds of the postings belong to this merchant. Every other posting belongs to a different
    merchant, so the average merchant has few postings.
    """
    owner = await asyncpg.connect(on.migration_url)
    try:
        await owner.execute(
            f"""
            INSERT INTO posting (merchant_id, environment, currency, kind, trx_id)
            SELECT {merchant_id} + CASE n % 3 WHEN 0 THEN n ELSE 0 END, 'production', 'NGN',
                   'payout', 'OLD-' || n
              FROM generate_series(1, {rows}) AS n"""
        )
        await owner.execute("VACUUM ANALYZE posting")
    finally:
        await owner.close()


async def _rows_read(
    on: Settings, log: PlanLog, request: Callable[[Business], Awaitable[object]]
) -> list[float]:
    """Returns how many rows of growing tables each block of requests has read."""
    rows_read = []
    async with business(on) as shop:
        await request(shop)
        for _ in range(BLOCKS):
            start = log.position()
            for _ in range(BLOCK_REQUESTS):
                await request(shop)
            rows_read.append(sum(s.rows_read for s in log.scans(start) if s.table in GROWING))
    return rows_read
