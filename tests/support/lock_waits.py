"""Records the tables in which the application's transactions wait for a locked row."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg

from manilla import worker
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.jobs.runner import Runner
from manilla.services import Services
from manilla.settings import Settings
from manilla.wiring import open_services

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
    """Watches the locks of the tests' database until the end of the `with` block."""
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


@contextlib.asynccontextmanager
async def slow_commits(cluster: Cluster) -> AsyncIterator[None]:
    """Makes each commit take 10 ms longer, so that locks are held long enough to be observed."""
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER, "postgres"))
    try:
        await connection.execute("ALTER SYSTEM SET commit_delay = 10000")
        await connection.execute("ALTER SYSTEM SET commit_siblings = 0")
        await connection.execute("SELECT pg_reload_conf()")
        yield
    finally:
        await connection.execute("ALTER SYSTEM RESET commit_delay")
        await connection.execute("ALTER SYSTEM RESET commit_siblings")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()


@contextlib.asynccontextmanager
async def two_workers(services: Services, settings: Settings) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with open_services(settings, name="second worker", connections=5) as second:
        running = [
            asyncio.create_task(Runner(each.db, worker.job_handlers(each)).run(stop))
            for each in (services, second)
        ]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*running)
