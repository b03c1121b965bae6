"""The request log is partitioned by month, without a copy of existing rows."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.merchants.requests import log
from manilla.merchants.requests.log import RequestLogLine
from manilla.settings import Settings
from manilla.sql import migrate, months, runner
from tests.support.databases import database

BEFORE = "0072"  # the last migration before the partitions
NOW = datetime.now(UTC)


@pytest.fixture
async def own(cluster: Cluster, settings: Settings) -> Settings:
    """A database whose partitions no other test uses."""
    return await database(cluster, settings, "months", is_migrated=True)


@pytest.fixture
async def db(own: Settings) -> AsyncIterator[Database]:
    """The database, with the privileges of the application."""
    opened = await Database.open(own.database_url, size=4, name="tests")
    yield opened
    await opened.close()


def _line(at: datetime) -> RequestLogLine:
    return RequestLogLine(
        *(1, at, "r1", "sandbox", "GET", "/api/v1/site-info", 200, None, None, None, 1.0),
        *("127.0.0.1", None, None, None),
    )


async def _partitions(db: Database) -> list[str]:
    rows = await db.records(
        "SELECT partition FROM months() WHERE parent = 'api_request' ORDER BY range_end"
    )
    return [row["partition"] for row in rows]


async def test_existing_rows_become_the_first_partition_without_a_copy(
    cluster: Cluster, settings: Settings
) -> None:
    on = await database(cluster, settings, "months_upgrade")
    await runner.run(on.migration_url, last=BEFORE)
    owner = await asyncpg.connect(on.migration_url)
    try:
        await owner.execute(f"GRANT SELECT, INSERT ON api_request TO {postgres.APPLICATION}")
        await _insert(owner, NOW - timedelta(days=400))
        await _insert(owner, NOW)
        file = await owner.fetchval("SELECT pg_relation_filenode('api_request')")
        await runner.run(on.migration_url)
        assert await owner.fetchval("SELECT pg_relation_filenode('api_request_first')") == file
        assert await owner.fetchval("SELECT count(*) FROM api_request") == 2
        await _insert_as_running_version(on, NOW + timedelta(seconds=1))
        assert await owner.fetchval("SELECT count(*) FROM api_request_first") == 3
        await migrate.upgrade(on.migration_url, on.database_url)
    finally:
        await owner.close()


async def _insert_as_running_version(on: Settings, at: datetime) -> None:
    """Inserts a row as the previous version, which runs until the new privileges are granted."""
    application = await asyncpg.connect(on.database_url)
    try:
        await _insert(application, at)
    finally:
        await application.close()


async def _insert(connection: Any, at: datetime) -> None:
    await connection.execute(
        "INSERT INTO api_request (merchant_id, at, request_id, environment, method, path, status,"
        " milliseconds, address) VALUES (1, $1, 'r', 'sandbox', 'GET', '/', 200, 1, '')",
        at,
    )


async def test_attaching_the_existing_table_reads_none_of_its_rows(
    cluster: Cluster, settings: Settings
) -> None:
    on = await database(cluster, settings, "months_scan")
    await runner.run(on.migration_url, last="0075")
    script = (runner.FOLDER / "0076_request_log_by_month.sql").read_text()
    owner = await asyncpg.connect(on.migration_url)
    try:
        await _insert(owner, NOW)
        async with owner.transaction():
            before = await owner.fetchval(
                "SELECT pg_stat_get_xact_numscans('api_request'::regclass)"
            )
            await owner.execute(script)
            after = await owner.fetchval(
                "SELECT pg_stat_get_xact_numscans('api_request_first'::regclass)"
            )
            assert after == before
    finally:
        await owner.close()


async def test_workers_create_the_next_months_once(db: Database) -> None:
    assert await _partitions(db) == ["api_request_first"]
    await asyncio.gather(*(months.create(db) for _ in range(4)))
    created = await _partitions(db)
    await months.create(db)
    assert await _partitions(db) == created
    assert len(created) == 3
    [days] = (await months.days_ahead(db)).values()
    assert days > 31 * (months.MONTHS_AHEAD - 1)
    await log.insert_lines(db, [_line(NOW), _line(NOW + timedelta(days=days - 1))])
    assert await _used(db) == [created[0], created[-1]]


async def _used(db: Database) -> list[str]:
    """Returns the partitions that have rows."""
    rows = await db.records(
        "SELECT DISTINCT tableoid::regclass::text FROM api_request ORDER BY 1 DESC"
    )
    return [row["tableoid"] for row in rows]


async def test_a_month_is_dropped_when_all_its_rows_are_old(db: Database) -> None:
    await months.create(db)
    first, second, third = await _partitions(db)
    days = (await months.days_ahead(db))["api_request"]
    await log.insert_lines(db, [_line(NOW), _line(NOW + timedelta(days=days - 1))])
    await log.delete_old(db, 7)
    assert await _partitions(db) == [first, second, third]
    await months.drop(db, "api_request", NOW + timedelta(days=days - 1))
    assert await _partitions(db) == [third]
    assert await _used(db) == [third]


@pytest.mark.parametrize("table", ["entry", "posting", "api_request_first"])
async def test_the_application_cannot_drop_other_tables(db: Database, table: str) -> None:
    with pytest.raises(Exception, match="must not be dropped"):
        await months.drop(db, table, NOW)


async def test_only_the_application_can_create_and_drop_months(own: Settings) -> None:
    owner = await asyncpg.connect(own.migration_url)
    try:
        for function in ("months_create(integer)", "months_drop(text, timestamptz)"):
            access = await owner.fetchrow(
                "SELECT has_function_privilege($1, $2, 'EXECUTE'),"
                " has_function_privilege('pg_monitor', $2, 'EXECUTE')",
                *(postgres.APPLICATION, function),
            )
            assert tuple(access) == (True, False)
    finally:
        await owner.close()


async def test_a_page_of_the_log_reads_only_the_months_of_its_rows(db: Database) -> None:
    """The page is read from the newest month backwards, and stops when it is full."""
    await months.create(db)
    await log.insert_lines(db, [_line(NOW - timedelta(seconds=number)) for number in range(60)])
    plan = await db.records(
        "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT request_id FROM api_request"
        " WHERE merchant_id = 1 AND at <= $1 ORDER BY at DESC, request_id DESC LIMIT 10",
        NOW,
    )
    scanned = [row["QUERY PLAN"] for row in plan if " on api_request" in row["QUERY PLAN"]]
    assert len(scanned) == 1, scanned
