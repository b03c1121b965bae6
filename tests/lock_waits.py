"""Records which tables' rows the application's transactions wait for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from manilla.kit.db import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster

# A transaction that waits for a locked row holds a lock of type `tuple`.
_WAITS = """
    SELECT row.relation::regclass::text AS table_name, activity.query
      FROM pg_locks waiting
      JOIN pg_locks row ON row.pid = waiting.pid AND row.locktype = 'tuple'
      JOIN pg_stat_activity activity ON activity.pid = waiting.pid
     WHERE NOT waiting.granted"""
_TABLES_OF_MERCHANTS = """
    SELECT table_name FROM information_schema.columns
     WHERE table_schema = 'public' AND column_name = 'merchant_id'"""


class LockWaits:
    def __init__(self, of_merchants: set[str]) -> None:
        self._of_merchants = of_merchants
        self.queries: dict[str, str] = {}  # maps each table to a query that waited

    def between_merchants(self) -> dict[str, str]:
        """Maps each table without a merchant column to a query that waited for one of its rows."""
        return {
            table: query for table, query in self.queries.items() if table not in self._of_merchants
        }


@contextlib.asynccontextmanager
async def watched(cluster: Cluster) -> AsyncIterator[LockWaits]:
    """Watches the locks of the tests' database until the end of the block."""
    url = cluster.url(postgres.SUPERUSER, postgres.NAME)  # this role can read other users' queries
    db = await Database.open(url, size=1, name="lock waits")
    records = await db.records(_TABLES_OF_MERCHANTS)
    waits = LockWaits({record["table_name"] for record in records})

    async def watch() -> None:
        while True:
            waits.queries |= {
                each["table_name"]: each["query"] for each in await db.records(_WAITS)
            }

    watching = asyncio.create_task(watch())
    try:
        yield waits
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await db.close()
