"""Two PostgreSQL servers with synchronous replication."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import asyncpg

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, NAME, OWNER, SUPERUSER
from tests.instance import free_port
from tests.timeouts import TIMEOUT_SECONDS


class Replicated:
    """A primary and a synchronous standby, so that every commit is stored on both servers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.cluster = postgres.prepare(folder)
        self._ports = (free_port(), free_port())
        self._servers: list[subprocess.Popen[bytes]] = []
        self._frozen: list[int] = []

    async def open(self) -> Self:
        primary, standby = self.cluster.folder, self._folder / "standby"
        alone = self._start(primary)
        await postgres.wait_until_ready(self.cluster)
        await postgres.create_database(self.cluster)
        alone.send_signal(signal.SIGINT)
        await asyncio.to_thread(alone.wait)
        self._configure(primary, self._ports[0])
        self._servers = [self._start(primary)]
        await self._until("SELECT true", self._ports[0])
        await asyncio.to_thread(self._copy, standby)
        self._configure(standby, self._ports[1])
        self._servers.append(self._start(standby))
        await self._until("SELECT count(*) = 1 FROM pg_stat_replication", self._ports[0])
        await self._ask("ALTER SYSTEM SET synchronous_standby_names = '*'", self._ports[0])
        await self._ask("SELECT pg_reload_conf()", self._ports[0])
        in_step = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        await self._until(in_step, self._ports[0])
        return self

    def close(self) -> None:
        for server in self._servers:
            server.kill()
            server.wait()
        for pid in self._frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def url(self, role: str) -> str:
        """Returns a database URL with both hosts. Clients connect to the writable host."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        password = self.cluster.passwords[role]
        return f"postgresql://{role}:{password}@{hosts}/{NAME}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "MANILLA_DATABASE_URL": self.url(APPLICATION),
            "MANILLA_MIGRATION_URL": self.url(OWNER),
        }

    async def lose_the_primary(self) -> None:
        self._servers[0].kill()
        await asyncio.to_thread(self._servers[0].wait)
        await self._promote_the_standby()

    async def freeze_the_primary(self) -> None:
        """Makes the primary hang, so that it never responds, and promotes the standby."""
        server = self._servers[0].pid
        self._frozen = [server, *_children(server)]
        for pid in self._frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        await self._promote_the_standby()

    async def _promote_the_standby(self) -> None:
        # The new primary has no standby yet.
        await self._ask("ALTER SYSTEM SET synchronous_standby_names = ''", self._ports[1])
        assert await self._ask("SELECT pg_promote()", self._ports[1])

    def _configure(self, folder: Path, port: int) -> None:
        with (folder / "postgresql.auto.conf").open("a") as configuration:
            configuration.write(
                f"listen_addresses = '127.0.0.1'\nport = {port}\nshared_buffers = 16MB\n"
            )

    def _start(self, folder: Path) -> subprocess.Popen[bytes]:
        """Starts a server without a supervisor, so that a server that a test kills stays down."""
        program = self.cluster.program(None)
        account = program.account
        with (self._folder / f"{folder.name}.log").open("ab") as log:
            return subprocess.Popen(
                program.command,
                cwd=folder,
                env=program.environment,
                user=account.uid if account else None,
                group=account.gid if account else None,
                stdout=log,
                stderr=log,
            )

    def _copy(self, standby: Path) -> None:
        whom = f"host=127.0.0.1 port={self._ports[0]} user={SUPERUSER}"
        password = self.cluster.passwords[SUPERUSER]
        subprocess.run(
            [
                *(str(self.cluster.binaries / "pg_basebackup"), "--pgdata", str(standby)),
                *("--checkpoint=fast", "--write-recovery-conf", "--dbname"),
                f"{whom} password={password}",
            ],
            check=True,
            capture_output=True,
        )
        if (account := self.cluster.account) is not None:
            for place in (standby, *standby.rglob("*")):
                os.chown(place, account.uid, account.gid, follow_symlinks=False)

    async def _ask(self, statement: str, port: int) -> Any:
        connection = await asyncpg.connect(
            host="127.0.0.1",
            port=port,
            user=SUPERUSER,
            password=self.cluster.passwords[SUPERUSER],
            database="postgres",
        )
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    async def _until(self, statement: str, port: int) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            # Errors are expected while the server is starting.
            with contextlib.suppress(OSError, asyncpg.PostgresError):
                if await self._ask(statement, port):
                    return
            assert time.monotonic() < deadline, statement
            await asyncio.sleep(0.1)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
