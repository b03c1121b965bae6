"""Recovers the database of a cell to an earlier moment."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg

from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from tests.moving.movers import Mover
from tests.support import databases


class CellRecovery:
    """Keeps a copy of a cell's database, which replaces the database later.

    As in a recovery to a moment, replication slots are lost.
    """

    def __init__(self, cluster: Cluster, mover: Mover, cell: str) -> None:
        self._cluster, self._mover, self._cell = cluster, mover, cell
        self._name = f"moving_{cell}"

    @property
    def old_url(self) -> str:
        """The URL of the database that the recovered database has replaced."""
        return self._cluster.url(postgres.OWNER, f"{self._name}_old")

    @contextlib.asynccontextmanager
    async def opened_old(self) -> AsyncIterator[Database]:
        """Opens the old database, on which no process of the cell runs."""
        old = await Database.open(self.old_url, size=4, name="tests old")
        try:
            yield old
        finally:
            await old.close()

    async def save(self) -> None:
        """Copies the database. The cell is recovered to this moment."""
        saved = f"{self._name}_saved"
        async with self._closed() as connection:
            await connection.execute(f"DROP DATABASE IF EXISTS {saved} WITH (FORCE)")
            await databases.create(connection, saved, self._name)
            await connection.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")
        await self._reconnect()

    async def recover(self) -> None:
        old = f"{self._name}_old"
        async with self._closed() as connection:
            await connection.execute(f"DROP DATABASE IF EXISTS {old} WITH (FORCE)")
            await connection.execute(f"ALTER DATABASE {self._name} RENAME TO {old}")
            await connection.execute(f"ALTER DATABASE {self._name}_saved RENAME TO {self._name}")
            await connection.execute(f"ALTER DATABASE {old} ALLOW_CONNECTIONS true")
        await self._reconnect()

    @contextlib.asynccontextmanager
    async def _closed(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self._cluster.url(postgres.SUPERUSER, "postgres"))
        try:
            await connection.execute(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
            await connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1",
                self._name,
            )
            yield connection
        finally:
            await connection.close()

    async def _reconnect(self) -> None:
        await self._mover.db(self._cell).reconnect()
        await self._mover.owners[self._cell].reconnect()
        await self._mover.pair.look()
