"""Tests the benchmark's generated history in a separate database."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from bench import history
from manilla.kit.embedded.postgres import SUPERUSER, Cluster
from manilla.ledger import trx_ids
from manilla.settings import Settings
from manilla.sql import migrate
from tests.support.databases import database

pytestmark = pytest.mark.long

NAME, NUMBER, MERCHANT = "bench_history", 60, 1
TABLES = ("payment", "payout", "posting", "notification")


@pytest.fixture(scope="module")
async def connection(cluster: Cluster, settings: Settings) -> AsyncIterator[Any]:
    """An empty database with Manilla's tables."""
    empty = await database(cluster, settings, NAME)
    await migrate.upgrade(empty.migration_url, empty.database_url)
    opened = await asyncpg.connect(cluster.url(SUPERUSER, NAME))
    yield opened
    await opened.close()


async def _indexes(connection: Any) -> list[str]:
    rows = await connection.fetch(
        "SELECT indexdef FROM pg_indexes WHERE tablename = ANY ($1) ORDER BY indexdef", TABLES
    )
    return [row["indexdef"] for row in rows]


async def test_history_has_real_ids_and_all_indexes(connection: Any, cluster: Cluster) -> None:
    indexes = await _indexes(connection)
    await history.fill_all(cluster.url(SUPERUSER, NAME), NUMBER, MERCHANT, MERCHANT)
    assert await _indexes(connection) == indexes
    for table in TABLES:
        number = await connection.fetchval(f"SELECT count(*) FROM {table}")
        # A payment and a payout have several rows in some tables.
        assert number == NUMBER if table in ("payment", "payout") else number >= NUMBER, table
    rows = await connection.fetch(
        """
        SELECT merchant_id, trx_id, created_at FROM payment
         UNION ALL
        SELECT merchant_id, trx_id, created_at FROM payout"""
    )
    assert len({row["trx_id"] for row in rows}) == 2 * NUMBER
    for row in rows:
        assert trx_ids.merchant_of(row["trx_id"]) == row["merchant_id"]
        moment = trx_ids.moment_of(row["trx_id"])
        assert moment is not None
        assert abs(moment - row["created_at"]) <= timedelta(milliseconds=1)
