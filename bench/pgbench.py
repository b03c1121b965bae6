"""Runs PostgreSQL's own pgbench: the same SQL on the same server, with minimal overhead.

pgbench uses prepared statements over the local socket, and its own CPU time is not counted. It
therefore shows how much CPU time a statement takes when it runs one by one. Each row starts pgbench
once and pauses it with SIGSTOP between its blocks, which keeps its connections open. Starting
pgbench for every block would also measure connecting and planning.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from bench.frame import PGBENCH, Contender, Work
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres, process
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.embedded.process import Program

TRIAL_SECONDS = 0.4
SETTLE_SECONDS = 0.05
PATIENCE_SECONDS = 10
LIFETIME_SECONDS = 600  # longer than any benchmark takes


class Script(msgspec.Struct, frozen=True):
    """One statement in pgbench's language. A pause between two statements could leave locks."""

    text: str
    count: str  # SQL that returns how often the statement has run
    variables: Mapping[str, str] = {}


class Pgbench:
    def __init__(
        self,
        cluster: Cluster,
        db: Database,
        folder: Path,
        clients: Sequence[int],
        database: str = postgres.NAME,
    ) -> None:
        self._cluster = cluster
        self._db = db
        self._folder = folder
        self._clients = clients
        self._database = database

    @asynccontextmanager
    async def started(self, script: Script, name: str = PGBENCH) -> AsyncIterator[Contender]:
        """Starts pgbench with the connection count at which the statement is fastest."""
        rates = {}
        for clients in self._clients if len(self._clients) > 1 else ():
            async with self._running(script, clients, name) as contender:
                await contender.run(TRIAL_SECONDS / 2)
                work = await contender.run(TRIAL_SECONDS)
                rates[clients] = work.done / work.seconds
        best = max(rates, key=lambda clients: rates[clients], default=self._clients[0])
        async with self._running(script, best, name) as contender:
            yield contender

    @asynccontextmanager
    async def _running(self, script: Script, clients: int, name: str) -> AsyncIterator[Contender]:
        program = self._program(script, clients)
        running = await process.spawn(program)
        running.send_signal(signal.SIGSTOP)

        async def run(seconds: float) -> Work:
            before, done, lasted = await self._db.value(script.count), 0, 0.0
            # Wait for the first result: pgbench may still be connecting, or the statement may be
            # slow.
            while not done and lasted < PATIENCE_SECONDS:
                began = time.monotonic()
                running.send_signal(signal.SIGCONT)
                await asyncio.sleep(seconds)
                if running.returncode is not None:
                    raise RuntimeError("pgbench has failed.")
                running.send_signal(signal.SIGSTOP)
                lasted += time.monotonic() - began
                await asyncio.sleep(SETTLE_SECONDS)  # running statements finish during this time
                done = await self._db.value(script.count) - before
            return Work(done, lasted)

        try:
            await run(TRIAL_SECONDS / 4)  # the first run opens the connections
            chosen = f"connections: {clients}" if len(self._clients) > 1 else ""
            yield Contender(name, run, pid=None, detail=chosen)
        finally:
            await process.end(running, program)

    def _program(self, script: Script, clients: int) -> Program:
        file = self._folder / f"pgbench-{self._database}.sql"
        file.write_text(script.text)
        return Program(
            name="pgbench",
            command=[
                *(str(self._cluster.binaries / "pgbench"), "--no-vacuum", "--exit-on-abort"),
                "--protocol=prepared",
                *(f"--client={clients}", f"--time={LIFETIME_SECONDS}", f"--file={file}"),
                *(f"--define={name}={value}" for name, value in script.variables.items()),
            ],
            environment={
                "PATH": os.environ.get("PATH", ""),
                "PGHOST": str(self._cluster.socket_folder),
                "PGUSER": postgres.APPLICATION,
                "PGPASSWORD": self._cluster.passwords[postgres.APPLICATION],
                "PGDATABASE": self._database,
            },
            log_file=self._folder / "pgbench.log",
            # Resume the process first: a paused process handles no other signal.
            stop_signal=signal.SIGKILL,
        )
