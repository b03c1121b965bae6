"""The database that all tests of a process share. It is emptied before each test module."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from tests.support.invariants import ALL

# Stores a copy of the rows that migrations insert, so that each test module can restore them.
_KEEP = "CREATE TEMPORARY TABLE initial_{table} AS TABLE {table}"
_RESTORE = "INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE initial_{table}"

# Makes all processes reload their caches, because the cached rows have been deleted.
_CHANGED = "UPDATE change SET version = version + 1"

_BROKEN = " UNION ALL ".join(
    f"SELECT '{rule.name}' WHERE EXISTS ({rule.violations})" for rule in ALL
)


class CleanDatabase:
    """Empties the tables as a superuser, bypassing the triggers that forbid changes to history."""

    def __init__(
        self, connection: asyncpg.Connection, initial: list[str], used: str, broken: Any
    ) -> None:
        self._connection = connection
        self._initial = initial  # the tables into which migrations insert rows
        self._used = used  # the SQL query that finds the tables with rows
        self._broken = broken  # the prepared statement that finds broken invariants

    @staticmethod
    @contextlib.asynccontextmanager
    async def opened(cluster: Cluster) -> AsyncIterator["CleanDatabase"]:
        """Saves the current rows of the database. Each test module starts with these rows."""
        connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER))
        try:
            names = await connection.fetch(
                "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
                " AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'change'"
            )
            used = " UNION ALL ".join(
                f"SELECT '{name}' AS name WHERE EXISTS (SELECT FROM {name})" for (name,) in names
            )
            initial = [name for (name,) in await connection.fetch(used)]
            for table in initial:
                await connection.execute(_KEEP.format(table=table))
            await connection.execute("SET session_replication_role = replica")
            # asyncpg does not cache a statement of this length, and planning it takes 14 ms.
            broken = await connection.prepare(_BROKEN)
            yield CleanDatabase(connection, initial, used, broken)
        finally:
            await connection.close()

    async def reset(self) -> None:
        """Deletes the rows that the last module inserted, and restores the rows that it changed.

        Retries after a deadlock, because a transaction that the last module left open can lock the
        same rows in a different order.
        """
        used = [name for (name,) in await self._connection.fetch(self._used)]
        statements = [f"DELETE FROM {table}" for table in used]  # faster than TRUNCATE
        statements += [_RESTORE.format(table=table) for table in self._initial]
        statements.append(_CHANGED)
        while True:
            with contextlib.suppress(asyncpg.DeadlockDetectedError):
                await self._connection.execute("; ".join(statements))
                return

    async def broken_invariants(self) -> list[str]:
        return [name for (name,) in await self._broken.fetch()]
