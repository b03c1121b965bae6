"""A private, durable PostgreSQL server with Manilla's own settings, started for one run."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, NAME, OWNER, SUPERUSER, Cluster
from manilla.kit.embedded.process import Supervisor
from manilla.sql import migrate

BASELINE_DATABASE = "baseline"
LOG_LINES_SHOWN = 15
# Counts the statements of each program, but only while a block enables the counting.
COUNTING = """
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track = none
"""
COUNTED = f"""
    SELECT coalesce(sum(calls), 0)::bigint,
           coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint
      FROM pg_stat_statements WHERE userid = '{APPLICATION}'::regrole"""
# The conditions under which a row runs its contenders, with the duration that is added to commits.
SLOW = ", 10 ms commits"
COMMITS = {"": 0, SLOW: 10_000}  # in microseconds
# The settings while a long history is loaded.
LOADING = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_compression": "off",
    "autovacuum": "off",
    "max_wal_size": "'8GB'",
}
RELOAD_SECONDS = 0.1  # an idle connection reloads the configuration with its next statement


class Counted(msgspec.Struct, frozen=True):
    """What programs have used since the counting started."""

    statements: int
    buffers: int  # pages of 8 KB in the server's cache that were read or changed


class Server(msgspec.Struct, frozen=True):
    folder: Path  # the folder for all files of this run
    cluster: Cluster
    supervisor: Supervisor

    @property
    def postmaster(self) -> int:
        pid = self.supervisor.pid("postgres")
        assert pid is not None
        return pid

    def url(self, database: str = NAME) -> str:
        return self.cluster.url(APPLICATION, database)

    def show_logs(self) -> None:
        """Prints the end of each log file, because the files are removed with the folder."""
        for file in sorted(self.folder.glob("*.log")):
            lines = file.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            sys.stderr.write("\n".join([f"--- {file.name}", *lines, ""]))

    async def analyze(self) -> None:
        """Updates the planner's statistics, to be independent of autovacuum's timing."""
        for database in await self.databases():
            await self.execute(database, "ANALYZE")

    async def add_database(self, name: str) -> None:
        """Adds a database, which replaces the one that an earlier run left in a kept folder."""
        await self.execute("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        await self.execute("postgres", f"CREATE DATABASE {name} OWNER {OWNER}")
        await migrate.upgrade(self.cluster.url(OWNER, name), self.cluster.url(APPLICATION, name))

    async def add_empty_database(self, name: str) -> None:
        await self.execute("postgres", f"CREATE DATABASE {name} OWNER {APPLICATION}")

    async def add_owned_database(self, name: str) -> None:
        """Adds an empty database that an installation migrates itself."""
        await self.execute("postgres", f"CREATE DATABASE {name} OWNER {OWNER}")

    @asynccontextmanager
    async def commits_of(self, microseconds: int) -> AsyncIterator[None]:
        """Makes every commit take this much longer, as a synchronous standby does."""
        await self._set_commit_delay(microseconds)
        try:
            yield
        finally:
            await self._set_commit_delay(0)

    async def _set_commit_delay(self, microseconds: int) -> None:
        siblings = 0 if microseconds else 5
        settings = (f"commit_delay = {microseconds}", f"commit_siblings = {siblings}")
        await self._set(f"ALTER SYSTEM SET {setting}" for setting in settings)

    @asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Makes loading data fast. A crash of the machine would destroy the data."""
        async with self.settings(LOADING):
            yield
        await self.execute("postgres", "CHECKPOINT")

    @asynccontextmanager
    async def settings(self, lines: Mapping[str, str]) -> AsyncIterator[None]:
        """Changes settings of the server for a while."""
        try:
            await self._set(f"ALTER SYSTEM SET {name} = {value}" for name, value in lines.items())
            yield
        finally:
            await self._set(f"ALTER SYSTEM RESET {name}" for name in lines)

    async def _set(self, statements: Iterable[str]) -> None:
        for statement in statements:
            await self.execute("postgres", statement)
        await self.execute("postgres", "SELECT pg_reload_conf()")
        await asyncio.sleep(RELOAD_SECONDS)

    async def transactions(self) -> int:
        """Returns how many transactions the server has committed so far, in all databases."""
        number: int = await self.value("SELECT sum(xact_commit)::bigint FROM pg_stat_database")
        return number

    async def wal_bytes(self) -> int:
        """Returns how many bytes of write-ahead log the server has written so far."""
        written: int = await self.value("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
        return written

    async def value(self, sql: str, database: str = "postgres") -> Any:
        connection = await asyncpg.connect(self.cluster.url(SUPERUSER, database))
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    @asynccontextmanager
    async def counted_statements(self) -> AsyncIterator[Callable[[], Awaitable[Counted]]]:
        """Counts the statements that programs send, and the buffers that the statements touch.

        Statements inside stored functions are not counted, but the buffers that they touch are.
        """

        async def counted() -> Counted:
            connection = await asyncpg.connect(self.cluster.url(SUPERUSER, "postgres"))
            try:
                return Counted(*await connection.fetchrow(COUNTED))
            finally:
                await connection.close()

        try:
            await self._track("top")
            yield counted
        finally:
            await self._track("none")

    async def _track(self, which: str) -> None:
        await self._set([f"ALTER SYSTEM SET pg_stat_statements.track = {which}"])
        await self.execute("postgres", "SELECT pg_stat_statements_reset()")

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
async def private_server(kept: Path | None = None) -> AsyncIterator[Server]:
    """Starts and migrates the server. At the end, stops every program given to the supervisor.

    `kept`: the folder of a server that is not removed, so that another run can use its databases.
    """
    with ExitStack() as stack:
        if kept is None:
            temporary = tempfile.TemporaryDirectory(prefix="manilla-bench-")
            folder = Path(stack.enter_context(temporary))
        else:
            folder = kept
            folder.mkdir(parents=True, exist_ok=True)
        supervisor = Supervisor()
        named = os.environ.get("MANILLA_POSTGRES_BIN")
        cluster = postgres.prepare(folder, Path(named) if named else None)
        with (cluster.folder / "manilla.conf").open("a") as configuration:
            configuration.write(COUNTING)
        try:
            await supervisor.start(cluster.program(folder / "postgres.log"))
            await postgres.wait_until_ready(cluster)
            await postgres.create_database(
                cluster.url(postgres.SUPERUSER, "postgres"), cluster.passwords
            )
            await migrate.upgrade(cluster.url(OWNER), cluster.url(APPLICATION))
            server = Server(folder, cluster, supervisor)
            # A run that was killed may have left the settings of `loading`.
            await server.execute("postgres", "ALTER SYSTEM RESET ALL")
            await server.execute("postgres", "SELECT pg_reload_conf()")
            await server.execute("postgres", "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            if BASELINE_DATABASE not in await server.databases():
                await server.add_empty_database(BASELINE_DATABASE)
            yield server
        finally:
            await supervisor.stop()
