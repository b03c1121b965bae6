"""A private, durable PostgreSQL server with Manilla's own settings, for one run."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, NAME, OWNER, SUPERUSER, Cluster
from manilla.kit.embedded.process import Supervisor
from manilla.sql import migrate

BASELINE_DATABASE = "baseline"
LOG_LINES_SHOWN = 15


class Server(msgspec.Struct, frozen=True):
    folder: Path  # the folder for all files of this run, which is removed at the end
    cluster: Cluster
    supervisor: Supervisor

    @property
    def postmaster(self) -> int:
        pid = self.supervisor.pid("postgres")
        assert pid is not None
        return pid

    def url(self, database: str = NAME) -> str:
        return self.cluster.url(APPLICATION, database)

    async def analyze(self) -> None:
        """Updates the planner's statistics, so that autovacuum's timing does not matter."""
        for database in await self.databases():
            await self.execute(database, "ANALYZE")

    async def add_database(self, name: str) -> None:
        """Adds another empty, migrated database for Manilla."""
        await self.execute("postgres", f"CREATE DATABASE {name} OWNER {OWNER}")
        await migrate.upgrade(self.cluster.url(OWNER, name), self.cluster.url(APPLICATION, name))

    async def add_empty_database(self, name: str) -> None:
        await self.execute("postgres", f"CREATE DATABASE {name} OWNER {APPLICATION}")

    async def wal_bytes(self) -> int:
        """Returns how many bytes of write-ahead log the server has written so far."""
        connection = await asyncpg.connect(self.cluster.url(SUPERUSER, "postgres"))
        try:
            written: int = await connection.fetchval(
                "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
            )
        finally:
            await connection.close()
        return written

    async def execute(self, database: str, sql: str) -> None:
        connection = await asyncpg.connect(self.cluster.url(SUPERUSER, database))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def databases(self) -> list[str]:
        connection = await asyncpg.connect(self.cluster.url(SUPERUSER, "postgres"))
        try:
            records = await connection.fetch(
                "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"
            )
        finally:
            await connection.close()
        return [record["datname"] for record in records]


@asynccontextmanager
async def private_server() -> AsyncIterator[Server]:
    """Starts and migrates the server. At the end, stops every program given to the supervisor."""
    with tempfile.TemporaryDirectory(prefix="manilla-bench-") as name:
        folder, supervisor = Path(name), Supervisor()
        named = os.environ.get("MANILLA_POSTGRES_BIN")
        cluster = postgres.prepare(folder, Path(named) if named else None)
        try:
            await supervisor.start(cluster.program(folder / "postgres.log"))
            await postgres.wait_until_ready(cluster)
            await postgres.create_database(cluster)
            await migrate.upgrade(cluster.url(OWNER), cluster.url(APPLICATION))
            server = Server(folder, cluster, supervisor)
            await server.add_empty_database(BASELINE_DATABASE)
            yield server
        except Exception:
            _show_logs(folder)
            raise
        finally:
            await supervisor.stop()


def _show_logs(folder: Path) -> None:
    """Prints the logs before their folder is removed."""
    for file in sorted(folder.glob("*.log")):
        lines = file.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        sys.stderr.write("\n".join([f"--- {file.name}", *lines, ""]))
