"""Resources that all benchmarks share: the database server, a merchant and the API processes."""

import asyncio
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench import seed
from bench.frame import Plan
from bench.pgbench import Pgbench
from bench.server import BASELINE_DATABASE, Server
from manilla import program
from manilla.cli.running.programs import listen
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres, process
from manilla.kit.embedded.process import Program
from manilla.merchants.merchants import NewMerchant

FOLDER = Path(__file__).parent
BASELINE_PYTHON = FOLDER.parent / ".venv-baseline" / "bin" / "python"
READY_SECONDS_MAX = 300  # a busy machine may need minutes after a long history was loaded


class Served(msgspec.Struct, frozen=True):
    port: int
    pid: int


class Secrets(msgspec.Struct, frozen=True):
    """What a later run needs to use the databases in a kept folder."""

    master_key: str
    merchant: NewMerchant


class Stage:
    def __init__(
        self, server: Server, plan: Plan, db: Database, merchant: NewMerchant, master_key: str
    ) -> None:
        self.server = server
        self.db = db
        self.merchant = merchant
        self.plan = plan
        self.clients = plan.clients
        self.pgbench = Pgbench(server.cluster, db, server.folder, plan.clients)
        self.master_key = master_key
        self._served: dict[str, Served] = {}
        self.histories: dict[int, Any] = {}  # databases with a long history, keyed by their size

    async def product(self, database: str = postgres.NAME) -> Served:
        """Starts Manilla with one process, as in production."""
        command = program.command("serve")
        return await self._serve(f"product-{database}", command, self.environment(database))

    @asynccontextmanager
    async def product_with(self, processes: int) -> AsyncIterator[Served]:
        """Runs Manilla with `processes` API processes on one socket, as `manilla up` does."""
        with listen("127.0.0.1", 0) as listener:
            # The port becomes free when the listener is closed.
            port: int = listener.getsockname()[1]
        command = [sys.executable, "-m", "manilla", "serve", f"--port={port}"]
        name = f"product-with-{processes}"
        program = self._program(name, [*command, f"--workers={processes}"], self.environment())
        running = await process.spawn(program)
        try:
            await _until_ready(program, port)
            yield Served(port, running.pid)
        finally:
            await process.end(running, program)

    async def product_without_limit(self) -> Served:
        command = [sys.executable, "-m", "bench.workers.unlimited"]
        return await self._serve("unlimited", command, self.environment())

    async def baseline(self) -> Served:
        command = [str(BASELINE_PYTHON), "-m", "baseline.serve"]
        return await self._serve("baseline", command, self.baseline_environment())

    def environment(self, database: str = postgres.NAME) -> dict[str, str]:
        """Returns this process's environment without variables that would affect the results."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("MANILLA_")
        }
        return {
            **inherited,
            "PYTHONPATH": str(FOLDER.parent),
            "MANILLA_MODE": "development",
            "MANILLA_BASE_URL": "http://127.0.0.1",
            "MANILLA_DATABASE_URL": self.server.url(database),
            "MANILLA_MASTER_KEY": self.master_key,
            # As behind a proxy, the connections of all callers come from one address.
            "MANILLA_TRUSTED_PROXIES": "127.0.0.1",
        }

    def baseline_environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(FOLDER),
            "DATABASE_URL": self.server.url(BASELINE_DATABASE),
        }

    async def _serve(
        self, name: str, command: Sequence[str], environment: dict[str, str]
    ) -> Served:
        if name not in self._served:
            listener = listen("127.0.0.1", 0)
            command = [*command, str(listener.fileno())]
            program = self._program(name, command, environment, listener)
            self._served[name] = await self._start(program, listener.getsockname()[1])
        return self._served[name]

    def _program(
        self,
        name: str,
        command: Sequence[str],
        environment: dict[str, str],
        *sockets: socket.socket,
    ) -> Program:
        metrics = self.server.folder / f"{name}.metrics"
        shutil.rmtree(metrics, ignore_errors=True)  # from an earlier run with the same folder
        metrics.mkdir()
        return Program(
            name=name,
            command=command,
            environment={**environment, "PROMETHEUS_MULTIPROC_DIR": str(metrics)},
            log_file=self.server.folder / f"{name}.log",
            sockets=sockets,
        )

    async def _start(self, program: Program, port: int) -> Served:
        await self.server.supervisor.start(program)
        await _until_ready(program, port)
        pid = self.server.supervisor.pid(program.name)
        assert pid is not None
        return Served(port, pid)


@asynccontextmanager
async def prepared(
    server: Server, plan: Plan, *, has_baseline: bool = True
) -> AsyncIterator[Stage]:
    db = await Database.open(server.url(), size=2, name="bench")
    try:
        secrets = await _secrets(server, db)
        stage = Stage(server, plan, db, secrets.merchant, secrets.master_key)
        if has_baseline:
            environment = stage.baseline_environment()
            await seed.baseline(str(BASELINE_PYTHON), environment, secrets.merchant)
        yield stage
    finally:
        await db.close()


async def _secrets(server: Server, db: Database) -> Secrets:
    """Creates the merchant and the wallets, unless an earlier run has created them."""
    file = server.folder / "secrets.json"
    if file.exists():
        return msgspec.json.decode(file.read_bytes(), type=Secrets)
    key = crypto.generate_key()
    merchant = await seed.product(db, Keyring([crypto.decode_key(key)]))
    await seed.wallets(db)
    secrets = Secrets(key, merchant)
    file.write_bytes(msgspec.json.encode(secrets))
    return secrets


async def _until_ready(program: Program, port: int) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not await asyncio.to_thread(answers, port):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{program.name} does not respond.")
        await asyncio.sleep(0.05)


def answers(port: int) -> bool:
    """Returns whether the health endpoint reports that the program can reach its database."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(b"GET /readyz HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False
