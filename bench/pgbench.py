"""PostgreSQL's own pgbench: the same SQL on the same server, with as little around it as can be.

Prepared statements over the local socket, no program in between, and the CPU of pgbench itself not
counted: what it shows is what the statement alone costs when it is run one by one. It is started
once for a row and stopped (as by Ctrl-Z) between its blocks. Its connections so stay warm; starting
it for every block would have it pay each time for connecting and for planning.
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
from manilla.kit import postgres, process
from manilla.kit.db import Database
from manilla.kit.postgres import Cluster
from manilla.kit.process import Program

TRIAL_SECONDS = 0.4
SETTLE_SECONDS = 0.05
PATIENCE_SECONDS = 10
LIFETIME_SECONDS = 600  # longer than any row takes


class Script(msgspec.Struct, frozen=True):
    """One statement, in pgbench's language. More would leave locks behind when it is stopped."""

    text: str
    count: str  # SQL that tells how often the statement has been run
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
        """With the number of connections at which the statement is fastest."""
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
            # Until something is done: it may be connecting yet, or be as slow as that.
            while not done and lasted < PATIENCE_SECONDS:
                began = time.monotonic()
                running.send_signal(signal.SIGCONT)
                await asyncio.sleep(seconds)
                if running.returncode is not None:
                    raise RuntimeError("pgbench has failed.")
                running.send_signal(signal.SIGSTOP)
                lasted += time.monotonic() - began
                await asyncio.sleep(SETTLE_SECONDS)  # for the statements that are under way
                done = await self._db.value(script.count) - before
            return Work(done, lasted)

        try:
            await run(TRIAL_SECONDS / 4)  # connects
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
            # A stopped process hears no other signal.
            stop_signal=signal.SIGKILL,
        )
