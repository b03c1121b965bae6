"""A cell: a PostgreSQL server, and `manilla up` with two API processes and a worker."""

import asyncio
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

import asyncpg

from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, NAME, OWNER, SUPERUSER
from tests.faults.replicated import listen_on, start_server
from tests.support.instance import Instance, free_port
from tests.support.waiting import until

RATE_LIMIT = "100000"
START_SECONDS = 600  # A busy machine may need this long.
# All other limits are the product's own. The receivers share this machine, which may be busy.
LIMITS = '{"only_host_connect_seconds": 5, "notification_seconds": 40, "api_ready_seconds": 600}'
# The rights that the owner of a cell's tables needs for moves.
RIGHTS = (f"ALTER ROLE {OWNER} REPLICATION", f"GRANT pg_create_subscription TO {OWNER}")


class Cell:
    """A complete installation with its own database and range of merchant numbers.

    All cells have the same master key, because a moved merchant's secrets stay encrypted.
    """

    instance: Instance
    db: Database

    def __init__(
        self, name: str, folder: Path, first: int, last: int, *, host: str, master_key: str
    ) -> None:
        self.name, self.folder = name, folder
        self._master_key = master_key
        self.range = ("--first", str(first), "--last", str(last))
        self.port, self._database_port = free_port(), free_port()
        # The cells' URLs need different host names, because one map decides by the host name.
        self.base_url = f"http://{host}:{self.port}"

    async def open(self) -> Self:
        self.folder.mkdir(mode=0o700)
        (self.folder / "master.key").write_text(self._master_key)
        # Each server is initialized, and not copied, because servers have different identifiers.
        self._cluster = await asyncio.to_thread(postgres.prepare, self.folder)
        listen_on(self._cluster.folder, self._database_port, wal_level="logical")
        log = self.folder.parent / f"{self.name}-postgres.log"
        self._server = start_server(self._cluster, self._cluster.folder, log)
        await until(self._create_database)
        self.instance = await asyncio.to_thread(self._start)
        self.db = await Database.open(self.url(APPLICATION), size=4, name="tests")
        await self.command("setting", "set", "rate_limit_per_minute", RATE_LIMIT)
        await self.command("cell", "create", self.name, *self.range)
        return self

    async def close(self) -> None:
        if hasattr(self, "instance"):
            await asyncio.to_thread(self.instance.stop)
        if hasattr(self, "db"):
            await self.db.close()
        if hasattr(self, "_server"):
            self._server.process.send_signal(signal.SIGINT)
            await asyncio.to_thread(self._server.process.wait)

    def url(self, role: str, database: str = NAME) -> str:
        password = self._cluster.passwords[role]
        return f"postgresql://{role}:{password}@127.0.0.1:{self._database_port}/{database}"

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "MANILLA_DATABASE_URL": self.url(APPLICATION),
            "MANILLA_MIGRATION_URL": self.url(OWNER),
            "MANILLA_BASE_URL": self.base_url,
            "MANILLA_TIME_LIMITS": LIMITS,
        }

    def move_environment(self, target: "Cell") -> dict[str, str]:
        """Returns the environment of the command that moves a merchant to the other cell."""
        return {**os.environ, "MANILLA_TARGET_DATABASE_URL": target.url(OWNER)}

    async def _create_database(self) -> bool:
        """Creates the database and its roles. Returns False while the server is starting."""
        self._server.check()
        url = self.url(SUPERUSER, "postgres")
        try:
            await postgres.create_database(url, self._cluster.passwords)
        except (OSError, asyncpg.CannotConnectNowError):
            return False
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("; ".join(RIGHTS))
        finally:
            await connection.close()
        return True

    def _start(self) -> Instance:
        options = ("--no-demo", "--workers", "2", "--follow-parent")
        environment = self._environment
        return Instance(self.folder, *options, port=self.port, environment=environment).wait(
            START_SECONDS
        )

    async def command(self, *words: str, **environment: str) -> Any:
        return await asyncio.to_thread(self.instance.command, *words, **environment)

    async def try_command(self, *words: str) -> str | None:
        """Runs a command. Returns None if it succeeds, and otherwise its error."""
        try:
            await self.command(*words)
        except (AssertionError, ValueError, subprocess.TimeoutExpired) as error:
            return f"{self.name}: {' '.join(words)}: {error}"
        return None

    def kill(self, program: str, which: int) -> bool:
        """Kills one of the processes of a program, `serve` or `worker`. It is started again."""
        found = self.instance.processes(program)
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[which % len(found)], signal.SIGKILL)
        return True
