"""A private PostgreSQL with the settings that Manilla gives its own: durable, and for this run."""

import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import msgspec

from manilla.kit import postgres
from manilla.kit.postgres import APPLICATION, NAME, OWNER, SUPERUSER, Cluster
from manilla.kit.process import Supervisor
from manilla.sql import migrate

BASELINE_DATABASE = "baseline"
LOG_LINES_SHOWN = 15


class Server(msgspec.Struct, frozen=True):
    folder: Path  # for everything that this run writes; removed at its end
    cluster: Cluster
    supervisor: Supervisor

    @property
    def postmaster(self) -> int:
        pid = self.supervisor.pid("postgres")
        assert pid is not None
        return pid

    @property
    def url(self) -> str:
        return self.cluster.url(APPLICATION)

    @property
    def baseline_url(self) -> str:
        return self.cluster.url(APPLICATION, BASELINE_DATABASE)

    async def analyze(self) -> None:
        """Gives the planner fresh statistics, lest autovacuum's clock decide on the numbers."""
        for database in (NAME, BASELINE_DATABASE):
            await _execute(self.cluster, database, "ANALYZE")


@asynccontextmanager
async def private_server() -> AsyncIterator[Server]:
    """Started and migrated; at the end every program that the supervisor was given is ended."""
    with tempfile.TemporaryDirectory(prefix="manilla-bench-") as name:
        folder, supervisor = Path(name), Supervisor()
        named = os.environ.get("MANILLA_POSTGRES_BIN")
        cluster = postgres.prepare(folder, Path(named) if named else None)
        try:
            await supervisor.start(cluster.program(folder / "postgres.log"))
            await postgres.wait_until_ready(cluster)
            await postgres.create_database(cluster)
            await migrate.upgrade(cluster.url(OWNER), cluster.url(APPLICATION))
            await _execute(
                cluster, "postgres", f"CREATE DATABASE {BASELINE_DATABASE} OWNER {APPLICATION}"
            )
            yield Server(folder, cluster, supervisor)
        except Exception:
            _show_logs(folder)
            raise
        finally:
            await supervisor.stop()


def _show_logs(folder: Path) -> None:
    """The folder is about to go, and with it what the programs had to say."""
    for file in sorted(folder.glob("*.log")):
        lines = file.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        sys.stderr.write("\n".join([f"--- {file.name}", *lines, ""]))


async def _execute(cluster: Cluster, database: str, sql: str) -> None:
    connection = await asyncpg.connect(cluster.url(SUPERUSER, database))
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
