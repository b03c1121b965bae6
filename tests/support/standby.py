"""A real standby of the tests' PostgreSQL server, with replay that a test can pause."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from manilla.kit.database.reader import PRIMARY_POSITION, STANDBY_STATE
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import SUPERUSER, Cluster
from manilla.kit.embedded.process import Supervisor
from tests.support.waiting import until


class StandbyServer:
    """A physical standby, which replicates everything that the primary writes."""

    def __init__(self, primary: Cluster, cluster: Cluster) -> None:
        self._primary, self._cluster = primary, cluster
        self._supervisor = Supervisor()

    def url(self, role: str, database: str) -> str:
        return self._cluster.url(role, database)

    @property
    def pid(self) -> int:
        return _postmaster(self._cluster)

    async def start(self) -> None:
        await self._supervisor.start(self._cluster.program(self._cluster.folder / "server.log"))
        await postgres.wait_until_ready(self._cluster)
        await self.catch_up()

    async def stop(self) -> None:
        await self._supervisor.stop()
        self._supervisor = Supervisor()

    async def catch_up(self) -> None:
        """Waits until the standby has replayed everything that the primary has written."""
        wanted = await self._ask(self._primary, PRIMARY_POSITION)

        async def is_reached() -> bool:
            return bool((await self._ask(self._cluster, STANDBY_STATE))["lsn"] >= wanted["lsn"])

        await until(is_reached)

    async def execute(self, sql: str) -> None:
        await self._ask(self._cluster, sql)

    async def until(self, sql: str) -> None:
        """Waits until this query on the standby returns true."""

        async def is_true() -> bool:
            return bool((await self._ask(self._cluster, sql))[0])

        await until(is_true)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Pauses replay in this block, so that the standby receives WAL but does not apply it."""
        await self.execute("SELECT pg_wal_replay_pause()")
        try:
            await self.until("SELECT pg_get_wal_replay_pause_state() = 'paused'")
            yield
        finally:
            await self.execute("SELECT pg_wal_replay_resume()")
            await self.catch_up()

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Makes the server hang in this block: it accepts connections and never responds."""
        pids = self._processes()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _processes(self) -> list[int]:
        server = _postmaster(self._cluster)
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        return [server, *map(int, children)]

    async def _ask(self, of: Cluster, sql: str) -> Any:
        connection = await asyncpg.connect(of.url(SUPERUSER, "postgres"))
        try:
            return await connection.fetchrow(sql)
        finally:
            await connection.close()


@asynccontextmanager
async def running_standby(primary: Cluster, folder: Path) -> AsyncIterator[StandbyServer]:
    """Copies the primary and runs the copy as a standby."""
    copy = folder / "postgres"
    await asyncio.to_thread(_copy, primary, copy)
    cluster = msgspec.structs.replace(
        primary, folder=copy, socket_folder=postgres._socket_folder(copy)
    )
    standby = StandbyServer(primary, cluster)
    await standby.start()
    try:
        yield standby
    finally:
        await standby.stop()


def _copy(primary: Cluster, to: Path) -> None:
    # The servers' account may not be able to enter the folders above the data folder.
    primary_pid = _postmaster(primary)
    whom = f"user={SUPERUSER} password={primary.passwords[SUPERUSER]}"
    subprocess.run(
        [
            *(str(primary.binaries / "pg_basebackup"), "--pgdata", str(to), "--checkpoint=fast"),
            *("--no-sync", "--dbname", f"host={primary.socket_folder} {whom}"),
        ],
        check=True,
        capture_output=True,
    )
    (to / "standby.signal").touch()
    with (to / "postgresql.auto.conf").open("a") as configuration:
        configuration.write(f"primary_conninfo = 'host=/proc/{primary_pid}/cwd {whom}'\n")
    # The embedded server's socket is in its data folder, so the copy has the socket's lock file.
    for file in to.glob(".s.PGSQL.*"):
        file.unlink()
    if primary.account is not None:
        for place in (to, *to.rglob("*")):
            os.chown(place, primary.account.uid, primary.account.gid, follow_symlinks=False)


def _postmaster(cluster: Cluster) -> int:
    return int((cluster.folder / "postmaster.pid").read_text().split()[0])
