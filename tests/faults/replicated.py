"""Two PostgreSQL servers with synchronous replication."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import asyncpg
import msgspec

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, NAME, OWNER, SUPERUSER, Cluster
from tests.support.instance import free_port
from tests.support.started_program import StartedProgram
from tests.support.timeouts import TIMEOUT_SECONDS

SLOT = "standby"
# Why a server cannot start while another server's processes still use its memory, port or files.
STILL_USED = ("still in use", "already in use", "already exists")
DROP_SLOT = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"


class NetworkCluster(Cluster, frozen=True):
    """Servers with TCP addresses. Clients connect to the one that is the primary."""

    addresses: tuple[str, ...]

    def url(self, role: str, database: str = NAME) -> str:
        hosts, query = ",".join(self.addresses), "target_session_attrs=read-write"
        return f"postgresql://{role}:{self.passwords[role]}@{hosts}/{database}?{query}"

    @classmethod
    def of(cls, cluster: Cluster, *addresses: str) -> "NetworkCluster":
        return cls(**msgspec.structs.asdict(cluster), addresses=addresses)


class Replicated:
    """A primary and a synchronous standby, so that every commit is stored on both servers."""

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """The servers get the environment variables and the settings in addition to their own."""
        self._folder = folder
        self._environment = environment
        self._settings = settings
        self.cluster = postgres.prepare(folder)
        self._folders = (self.cluster.folder, folder / "standby")
        self._ports = (free_port(), free_port())
        self.servers = NetworkCluster.of(
            self.cluster, *(f"127.0.0.1:{port}" for port in self._ports)
        )
        self._servers: dict[int, StartedProgram] = {}
        self._primary, self._standby = 0, 1  # the positions in `_folders` and `_ports`

    async def open(self) -> Self:
        alone = self._start(self._folders[0])
        await until_ready(self.cluster, alone)
        await postgres.create_database(
            self.cluster.url(SUPERUSER, "postgres"), self.cluster.passwords
        )
        alone.process.send_signal(signal.SIGINT)
        await asyncio.to_thread(alone.process.wait)
        listen_on(self._folders[0], self._ports[0], **self._settings)
        await self._start_server(0)
        await self.add_the_standby()
        return self

    def close(self) -> None:
        for number in list(self._servers):
            self._kill(number)

    def url(self, role: str) -> str:
        """Returns a database URL with both hosts. Clients connect to the writable host."""
        return self.servers.url(role).partition("?")[0]

    @property
    def environment(self) -> dict[str, str]:
        return {
            "MANILLA_DATABASE_URL": self.url(APPLICATION),
            "MANILLA_MIGRATION_URL": self.url(OWNER),
        }

    @property
    def primary_pid(self) -> int:
        return self._servers[self._primary].process.pid

    async def add_the_standby(self) -> None:
        """Copies the primary to the other folder, and replicates every commit to the copy."""
        self._kill(self._standby)
        standby, port = self._folders[self._standby], self._ports[self._primary]
        await asyncio.to_thread(shutil.rmtree, standby, ignore_errors=True)
        await self._ask(f"{DROP_SLOT} AND slot_name = '{SLOT}'", port)
        await asyncio.to_thread(self._copy, standby)
        listen_on(standby, self._ports[self._standby], **self._settings)
        self._servers[self._standby] = self._start(standby)
        await self._until("SELECT count(*) = 1 FROM pg_stat_replication", port)
        await self._set("synchronous_standby_names", "walreceiver", port)
        in_step = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        await self._until(in_step, port)

    async def restart_the_primary(self) -> None:
        """Kills the primary, which recovers from its log at the next start."""
        self._kill(self._primary)
        await self._start_server(self._primary)

    async def restart_the_standby(self) -> None:
        """Kills the standby. Until it has started again, no commit is acknowledged."""
        self._kill(self._standby)
        self._servers[self._standby] = self._start(self._folders[self._standby])
        in_step = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        await self._until(in_step, self._ports[self._primary], restarted=self._standby)

    def lose_the_standby(self) -> None:
        """Kills the standby. No commit is acknowledged from now on."""
        self._kill(self._standby)

    async def lose_the_primary(self) -> None:
        self._kill(self._primary)
        await self._promote_the_standby()

    async def switch_over(self) -> None:
        """Stops the primary, which first sends its whole log to the standby, and promotes it."""
        server = self._servers.pop(self._primary).process
        server.send_signal(signal.SIGINT)  # a fast shutdown
        await asyncio.to_thread(server.wait)
        control = await asyncio.to_thread(self._control_data, self._folders[self._primary])
        port = self._ports[self._standby]
        # The standby has replayed the checkpoint with which the primary ended.
        assert await self._ask(
            f"SELECT pg_last_wal_replay_lsn() > '{control['Latest checkpoint location']}'", port
        )
        assert control["Database cluster state"] == "shut down"
        await self._promote_the_standby()

    async def until_synchronized(self, slot: str) -> None:
        """Waits until the standby has this replication slot, and keeps it if it is promoted."""
        primary, standby = (self._ports[each] for each in (self._primary, self._standby))
        synchronized = (
            "SELECT synced AND NOT temporary AND invalidation_reason IS NULL"
            f" FROM pg_replication_slots WHERE slot_name = '{slot}'"
        )
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await self._ask(synchronized, standby):
                # Both happen after a while without this, too.
                await self._ask("SELECT pg_log_standby_snapshot()", primary)
                await self._ask("SELECT pg_reload_conf()", standby)
                await asyncio.sleep(0.2)

    def _control_data(self, folder: Path) -> dict[str, str]:
        printed = subprocess.run(
            [str(self.cluster.binaries / "pg_controldata"), str(folder)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        lines = (line.partition(":") for line in printed.splitlines())
        return {name: value.strip() for name, _, value in lines}

    async def freeze_the_primary(self) -> None:
        """Makes the primary hang, so that it never responds, and promotes the standby."""
        for pid in self._processes(self._primary):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        await self._promote_the_standby()

    async def _promote_the_standby(self) -> None:
        """Makes the standby the primary. `add_the_standby` replaces the lost server."""
        port = self._ports[self._standby]
        if self._standby not in self._servers:
            await self._start_server(self._standby)
        # The new primary has no standby yet.
        for setting in ("synchronous_standby_names", "synchronized_standby_slots"):
            await self._set(setting, "", port)
        assert await self._ask("SELECT pg_promote()", port)
        self._primary, self._standby = self._standby, self._primary

    def _processes(self, number: int) -> list[int]:
        server = self._servers[number].process.pid
        return [server, *_children(server)]

    def _kill(self, number: int) -> None:
        """Kills a server with all its processes, even if they are stalled."""
        if number not in self._servers:
            return
        for pid in self._processes(number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._servers.pop(number).process.wait()

    async def _start_server(self, number: int) -> None:
        self._servers[number] = self._start(self._folders[number])
        await self._until("SELECT true", self._ports[number], restarted=number)

    def _start(self, folder: Path) -> StartedProgram:
        log = self._folder / f"{folder.name}.log"
        return start_server(self.cluster, folder, log, self._environment)

    def _copy(self, standby: Path) -> None:
        whom = f"host=127.0.0.1 port={self._ports[self._primary]} user={SUPERUSER}"
        password = self.cluster.passwords[SUPERUSER]
        subprocess.run(
            [
                *(str(self.cluster.binaries / "pg_basebackup"), "--pgdata", str(standby)),
                *("--checkpoint=fast", "--write-recovery-conf", "--create-slot", "--slot", SLOT),
                *("--dbname", f"{whom} password={password} dbname=postgres"),
            ],
            check=True,
            capture_output=True,
        )
        if (account := self.cluster.account) is not None:
            for place in (standby, *standby.rglob("*")):
                os.chown(place, account.uid, account.gid, follow_symlinks=False)

    async def set_on_primary(self, name: str, value: str) -> None:
        await self._set(name, value, self._ports[self._primary])

    async def _set(self, name: str, value: str, port: int) -> None:
        await self._ask(f"ALTER SYSTEM SET {name} = '{value}'", port)
        await self._ask("SELECT pg_reload_conf()", port)

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

    async def _until(self, statement: str, port: int, restarted: int | None = None) -> None:
        """Waits until the statement returns true.

        A server that was killed may leave processes that still use its memory. Then the server
        `restarted` cannot start yet, and is started again. If it has ended for another reason,
        raises an error.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            if restarted is not None and self._servers[restarted].process.poll() is not None:
                log = self._servers[restarted].last_lines()
                if not any(reason in log for reason in STILL_USED):
                    self._servers[restarted].check()
                self._servers[restarted] = self._start(self._folders[restarted])
            # Errors are expected while the server is starting.
            with contextlib.suppress(OSError, asyncpg.PostgresError):
                if await self._ask(statement, port):
                    return
            assert time.monotonic() < deadline, statement
            await asyncio.sleep(0.1)


def listen_on(folder: Path, port: int, **settings: str) -> None:
    """Makes the server in this folder listen on a TCP port, with a small cache."""
    given = {"listen_addresses": "127.0.0.1", "port": port, "shared_buffers": "16MB", **settings}
    with (folder / "postgresql.auto.conf").open("a") as configuration:
        configuration.writelines(f"{name} = '{value}'\n" for name, value in given.items())


def start_server(
    cluster: Cluster,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> StartedProgram:
    """Starts a server without a supervisor, so that a server that a test kills stays down."""
    program = cluster.program(None)
    account = program.account
    with log.open("ab") as output:
        process = subprocess.Popen(
            program.command,
            cwd=folder,
            env={**program.environment, **environment},
            user=account.uid if account else None,
            group=account.gid if account else None,
            stdout=output,
            stderr=output,
        )
    return StartedProgram(f"PostgreSQL in {folder}", process, log)


async def until_ready(cluster: Cluster, server: StartedProgram) -> None:
    """Waits until the server accepts connections. Raises an error if it has ended."""
    waiting = asyncio.create_task(postgres.wait_until_ready(cluster, server.log))
    try:
        while not waiting.done():
            server.check()
            await asyncio.wait([waiting], timeout=0.1)
        await waiting
    finally:
        waiting.cancel()


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
