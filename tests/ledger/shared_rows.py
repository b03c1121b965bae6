"""Finds rows that several merchants share and that a transaction keeps locked until its commit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.database.connections import Database, KeptConnection
from manilla.providers.health import Health
from manilla.routing.deliveries import Deliveries

# Each row of these tables belongs to one merchant, person or client.
OWNED = ("merchant", "person", "session", "invitation", "password_reset", "rate_window")


class SharedRows:
    """Runs each SQL statement in a transaction, and checks its locks before the commit."""

    def __init__(self, owner: Database, tables: dict[str, str]) -> None:
        self._owner = owner
        self._tables = tables
        # Checks run one at a time, because a check itself locks rows.
        self._looking = asyncio.Lock()
        self.found: set[str] = set()

    @contextlib.asynccontextmanager
    async def watched(self, raw: Any) -> AsyncIterator[None]:
        async with raw.transaction():
            yield
            async with self._looking:
                await self._look()

    async def until_none_is_locked(self) -> None:
        """Waits until SQL statements that started earlier have released their locks."""
        await self._look()
        while self.found:
            self.found.clear()
            await asyncio.sleep(0.01)
            await self._look()

    async def _look(self) -> None:
        for table, condition in self._tables.items():
            # Ignore the key-share locks of foreign keys, because they do not block other sessions.
            is_locked = f"""
                SELECT count(*) FROM {table} WHERE {condition}
                   AND ctid NOT IN (SELECT ctid FROM {table} WHERE {condition}
                                       FOR NO KEY UPDATE SKIP LOCKED)"""
            if await self._owner.number(is_locked):
                self.found.add(table)


async def _shared_tables(owner: Database) -> dict[str, str]:
    """Maps each table that has shared rows to the SQL condition that selects these rows."""
    records = await owner.records(
        """
        SELECT t.table_name AS name, count(c.column_name) > 0 AS has_merchant
          FROM information_schema.tables AS t
          LEFT JOIN information_schema.columns AS c
               ON c.table_name = t.table_name AND c.column_name = 'merchant_id'
         WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE'
         GROUP BY t.table_name"""
    )
    return {
        each["name"]: "coalesce(merchant_id, 0) = 0" if each["has_merchant"] else "true"
        for each in records
        if each["name"] not in OWNED
    }


@contextlib.asynccontextmanager
async def watching(owner: Database) -> AsyncIterator[SharedRows]:
    rows = SharedRows(owner, await _shared_tables(owner))
    session, kept = Database._session, KeptConnection.records

    @contextlib.asynccontextmanager
    async def watched_session(db: Database, sql: str = "") -> AsyncIterator[Any]:
        async with session(db, sql) as raw:
            if db is owner:
                yield raw
            else:
                async with rows.watched(raw):
                    yield raw

    async def watched_records(connection: Any, sql: str, *values: Any) -> list[Any]:
        await kept(connection, "SELECT 1")  # opens the session
        async with rows.watched(connection._raw):
            return await kept(connection, sql, *values)

    async def write_nothing(_figures: Any) -> None:
        """Does not write rail statistics, because their locks block no other transaction."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deliveries, "flush", write_nothing)
        patch.setattr(Health, "flush", write_nothing)
        patch.setattr(Database, "_session", watched_session)
        patch.setattr(KeptConnection, "records", watched_records)
        await rows.until_none_is_locked()
        yield rows
