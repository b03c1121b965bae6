"""PostgreSQL's own pgbench: the same SQL on the same server, with as little around it as can be.

Prepared statements over the local socket, and no program in between. The CPU of pgbench itself is
not counted, so what it shows is what the statement alone costs when it is run one by one.
"""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.frame import PGBENCH, Contender, Work
from manilla.kit import postgres
from manilla.kit.postgres import Cluster

# Tried when a row begins; the fastest is pgbench's in all its blocks.
CLIENTS = (1, 2, 4, 8, 16, 32)
TRIAL_SECONDS = 1

_DONE = re.compile(r"number of transactions actually processed: (\d+)")
_FAILED = re.compile(r"number of failed transactions: (\d+)")
_RATE = re.compile(r"tps = ([0-9.]+) \(without initial connection time\)")


class Script(msgspec.Struct, frozen=True):
    """A transaction, in pgbench's language, and the values of its variables."""

    text: str
    variables: Mapping[str, str] = {}


class Pgbench:
    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    async def contender(self, name: str, script: Script, clients: int | None) -> Contender:
        """A contender with so many connections, or with as many as prove best."""
        file = self._folder / f"{name}.sql"
        file.write_text(script.text)
        chosen = clients or await self._best_number_of_clients(file, script)

        async def run(seconds: float) -> Work:
            return await self._run(file, script, chosen, seconds)

        return Contender(PGBENCH, run, pid=None)

    async def _best_number_of_clients(self, file: Path, script: Script) -> int:
        rates = {}
        for clients in CLIENTS:
            work = await self._run(file, script, clients, TRIAL_SECONDS)
            rates[clients] = work.done / work.seconds
        return max(rates, key=lambda clients: rates[clients])

    async def _run(self, file: Path, script: Script, clients: int, seconds: float) -> Work:
        command = [
            *(str(self._cluster.binaries / "pgbench"), "--no-vacuum", "--protocol=prepared"),
            *(f"--client={clients}", f"--time={max(1, round(seconds))}", f"--file={file}"),
            *(f"--define={name}={value}" for name, value in script.variables.items()),
        ]
        process = await asyncio.create_subprocess_exec(
            *command,
            env=self._environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return _read(output.decode(), errors.decode())

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", ""),
            "PGHOST": str(self._cluster.socket_folder),
            "PGUSER": postgres.APPLICATION,
            "PGPASSWORD": self._cluster.passwords[postgres.APPLICATION],
            "PGDATABASE": postgres.NAME,
        }


def _read(output: str, errors: str) -> Work:
    done, failed, rate = (pattern.search(output) for pattern in (_DONE, _FAILED, _RATE))
    if not (done and failed and rate) or int(failed[1]) or "aborted" in errors:
        sys.stderr.write(errors)
        raise RuntimeError("pgbench has failed.")
    return Work(int(done[1]), int(done[1]) / float(rate[1]))
