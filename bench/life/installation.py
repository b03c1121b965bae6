"""Runs Manilla as an operator does, in this version or in an earlier one, on its own database.

An earlier version is checked out from this repository's history and has its own packages. Both
versions are set up with the same commands. `manilla up` runs one API process and one worker.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.life.provider import WEBHOOK_SECRET
from bench.life.world import Merchant
from bench.load import ask
from bench.signed import signed
from bench.stage import FOLDER, Stage
from manilla.cli.running.programs import listen
from manilla.kit.embedded.postgres import APPLICATION, OWNER
from manilla.merchants.credentials import NewCredentials

ROOT = FOLDER.parent
CHECKOUTS = ROOT / ".bench"
BALANCE = "10000000000.00"
METHOD = "providera_ngn_transfer"
SETUP_AT_ONCE = 4


class Installation(msgspec.Struct, frozen=True):
    """An installed version of Manilla."""

    folder: Path
    python: Path


THIS = Installation(ROOT, Path(sys.executable))


def checkout(commit: str) -> Installation:
    """Checks out and installs an earlier version, unless an earlier run has done so."""
    folder = CHECKOUTS / commit
    installation = Installation(folder, folder / ".venv" / "bin" / "python")
    if not (folder / ".venv" / ".installed").exists():
        if not folder.exists():
            _run("git", "-C", str(ROOT), "worktree", "prune")
            _run("git", "-C", str(ROOT), "worktree", "add", "--detach", str(folder), commit)
        _run(sys.executable, "-m", "venv", str(folder / ".venv"))
        requirements = str(folder / "requirements.txt")
        _run(str(installation.python), "-m", "pip", "install", "-q", "-r", requirements)
        (folder / ".venv" / ".installed").touch()
    return installation


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


class Running(msgspec.Struct, frozen=True):
    pid: int
    port: int
    merchants: list[Merchant]
    method_id: int


@asynccontextmanager
async def running(
    stage: Stage, installation: Installation, database: str, world_url: str, merchant_count: int
) -> AsyncIterator[Running]:
    """Creates a database with merchants, endpoints and a provider, and runs Manilla on it."""
    await stage.server.add_owned_database(database)
    with listen("127.0.0.1", 0) as listener:
        port: int = listener.getsockname()[1]  # free again when the listener is closed
    environment = {
        **stage.environment(database),
        "PYTHONPATH": str(installation.folder),
        "MANILLA_DATA": str(stage.server.folder / database),
        "MANILLA_BASE_URL": f"http://127.0.0.1:{port}",
        "MANILLA_DATABASE_URL": stage.server.cluster.url(APPLICATION, database),
        "MANILLA_MIGRATION_URL": stage.server.cluster.url(OWNER, database),
    }
    manilla = _Manilla(installation, environment)
    await manilla("migrate")
    await manilla("setting", "set", "rate_limit_per_minute", "100000000")
    provider = ("secret_key=life", f"webhook_secret={WEBHOOK_SECRET}", f"base_url={world_url}")
    await manilla("provider", "set", "providera", *provider)
    places = asyncio.Semaphore(SETUP_AT_ONCE)

    async def merchant(number: int) -> Merchant:
        async with places:
            return await _merchant(manilla, number)

    merchants = await asyncio.gather(*(merchant(number) for number in range(merchant_count)))
    methods = await manilla("withdraw-method", "list")
    [method_id] = [each["id"] for each in methods if each["code"] == METHOD]
    process = await manilla.up(port, stage.server.folder / f"{database}.log")
    try:
        for each in merchants:
            await _add_endpoint(port, each, world_url)
        yield Running(process.pid, port, merchants, method_id)
    finally:
        process.terminate()
        await process.wait()


async def _merchant(manilla: "_Manilla", number: int) -> Merchant:
    created = await manilla(
        *("merchant", "create", f"Life {number}", f"life{number}@example.com"),
        *("--status", "approved", "--currency", "NGN"),
    )
    merchant_id = str(created["id"])
    await manilla("merchant", "set", merchant_id, "--kyc", "verified", "--phone", "verified")
    await manilla("wallet", "fund", merchant_id, "NGN", BALANCE, "--environment", "production")
    return Merchant(created["id"], NewCredentials(**created["production"]))


async def _add_endpoint(port: int, merchant: Merchant, world_url: str) -> None:
    terms = {"url": f"{world_url}/events", "events": ["payout.completed", "payment.success"]}
    body = json.dumps(terms).encode()
    path = "/api/v1/webhook-endpoints"
    await ask(port, signed(merchant.credentials, "POST", path, body, environment="production"))


class _Manilla:
    """The `manilla` command of an installation."""

    def __init__(self, installation: Installation, environment: dict[str, str]) -> None:
        self._command = (str(installation.python), "-m", "manilla")
        self._folder = installation.folder
        self._environment = environment

    async def __call__(self, *words: str) -> Any:
        process = await asyncio.create_subprocess_exec(
            *(*self._command, *words, "--json"),
            cwd=self._folder,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"manilla {' '.join(words)} failed")
        return json.loads(output) if output.strip() else None

    async def up(self, port: int, log: Path) -> asyncio.subprocess.Process:
        words = ("up", "--port", str(port), "--no-demo", "--workers", "1", "--follow-parent")
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(*self._command, *words, "--json"),
                cwd=self._folder,
                env=self._environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise RuntimeError("manilla up has ended before it was ready")
        return process
