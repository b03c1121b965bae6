"""Migrations do not block writes, and do not remove objects that the running version uses."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from manilla.sql import migrate, runner
from manilla.sql.tables import GROWING
from tests.support.databases import database
from tests.tools.migration_examples import EXAMPLES, Example

SCANNING = {"rewrite", "scan", "not null"}


@pytest.fixture(scope="module")
async def examples(cluster: Cluster, settings: Settings) -> Settings:
    """A database that no other test uses: a change of a domain fails if others have temp tables."""
    return await database(cluster, settings, "examples", is_migrated=True)


@pytest.fixture
async def scratch(examples: Settings) -> AsyncIterator[Any]:
    """A connection, as the owner of the database, in a transaction that is rolled back."""
    connection = await asyncpg.connect(examples.migration_url)
    change = connection.transaction()
    await change.start()
    yield connection
    await change.rollback()
    await connection.close()


async def _files(connection: Any) -> list[Any]:
    """Returns the file in which PostgreSQL keeps each growing table."""
    query = "SELECT relname, relfilenode FROM pg_class WHERE relname = ANY($1) ORDER BY 1"
    return list(await connection.fetch(query, list(GROWING)))


async def _scans(connection: Any) -> int:
    """Returns how often this transaction has scanned a growing table."""
    query = "SELECT sum(pg_stat_get_xact_numscans(oid)) FROM pg_class WHERE relname = ANY($1)"
    return int(await connection.fetchval(query, list(GROWING)))


async def _run(connection: Any, sql: str) -> None:
    """Runs statements in the open transaction, in which an index cannot be built concurrently."""
    await connection.execute(f"{sql.replace(' CONCURRENTLY', '')}; SELECT")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.bad)
async def test_a_rejected_migration_rewrites_or_scans_as_its_rule_says(
    scratch: Any, example: Example
) -> None:
    await _run(scratch, example.before)
    files, scans = await _files(scratch), await _scans(scratch)
    await _run(scratch, example.bad)
    assert (await _files(scratch) != files) or example.rule != "rewrite"
    assert (await _scans(scratch) > scans) or example.rule not in SCANNING


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: each.good)
async def test_an_accepted_migration_neither_rewrites_nor_scans(
    scratch: Any, example: Example
) -> None:
    await _run(scratch, example.before)
    files, scans = await _files(scratch), await _scans(scratch)
    await _run(scratch, example.good)
    assert await _files(scratch) == files
    assert (await _scans(scratch) == scans) or example.rule not in SCANNING


async def test_an_index_left_invalid_by_a_crash_is_rebuilt(
    cluster: Cluster, settings: Settings
) -> None:
    on = await database(cluster, settings, "half_migrated")
    await runner.run(on.migration_url, last="0043")
    owner = await asyncpg.connect(on.migration_url)
    try:
        await owner.execute("CREATE INDEX refund_reference ON refund (merchant_id)")
        await _invalidate(cluster, "half_migrated", "refund_reference")
        await migrate.upgrade(on.migration_url, on.database_url)
        [index] = await owner.fetch(
            """
            SELECT indisvalid, indisunique, indnatts FROM pg_index
             WHERE indexrelid = 'refund_reference'::regclass"""
        )
        assert tuple(index) == (True, True, 3)
    finally:
        await owner.close()


async def _invalidate(cluster: Cluster, name: str, index: str) -> None:
    """Marks an index as invalid, as an interrupted concurrent build does."""
    superuser = await asyncpg.connect(cluster.url("postgres", name))
    try:
        await superuser.execute(
            f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{index}'::regclass"
        )
    finally:
        await superuser.close()


async def test_the_running_version_writes_notifications_before_rights_are_granted(
    cluster: Cluster, settings: Settings
) -> None:
    """During a migration, the application's role has no privileges on the trigger's tables."""
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER))
    change = connection.transaction()
    await change.start()
    try:
        await connection.execute(
            "CREATE ROLE running_version; GRANT USAGE ON SCHEMA public TO running_version;"
            "GRANT INSERT ON notification TO running_version; SET ROLE running_version"
        )
        written = await connection.execute(
            "INSERT INTO notification (merchant_id, id, environment, trx_id, event, status, url,"
            " body) VALUES (1, 'msg_1', 'sandbox', 'TXN1', 'payment', 'completed', '', '{}')"
        )
        assert written == "INSERT 0 1"
    finally:
        await change.rollback()
        await connection.close()
