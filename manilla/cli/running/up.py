"""`manilla up`: runs the whole system on this machine, as one process tree in the foreground."""

import asyncio
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from manilla import development, program, secret_sources
from manilla.cli import instance
from manilla.cli.instance import Data, InstanceRefusal, Running
from manilla.cli.output import Json, print_json
from manilla.cli.running.programs import (
    Host,
    Port,
    Workers,
    api_program,
    listen,
    local_address,
    reachable,
)
from manilla.kit import logs, time_limits
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.process import Program, Supervisor, follow_parent, until_stopped
from manilla.platform import master_key
from manilla.settings import (
    BadConfiguration,
    Mode,
    Settings,
    apply_limits,
    data_folder,
    read_mode,
)

LOG_BYTES_MAX = 50 * 1024 * 1024
USUAL_WORKERS_MAX = 4


def up(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    data: Data = None,
    demo_: Annotated[
        bool | None,
        typer.Option(
            "--demo/--no-demo", help="Create the demo merchant.  [default: in development]"
        ),
    ] = None,
    history: Annotated[
        bool | None,
        typer.Option(
            "--demo-history/--no-demo-history",
            help="Fill in a month of history with a new demo merchant.  [default: with the demo]",
        ),
    ] = None,
    workers: Workers = None,
    follow: Annotated[bool, typer.Option("--follow-parent", hidden=True)] = False,
    as_json: Json = False,
) -> None:
    """Run Manilla on this machine: API, pages, worker and PostgreSQL.

    If MANILLA_DATABASE_URL is set, PostgreSQL is not started.
    """
    logs.configure("manilla")
    if follow:
        follow_parent()
    mode = read_mode(os.environ, Mode.DEVELOPMENT)
    apply_limits(os.environ, mode)
    if mode is Mode.PRODUCTION:
        Settings.read(os.environ, assumed_mode=mode)
        if demo_ or history:
            raise BadConfiguration("There is no demo merchant in production mode.")
    plan = _Plan(
        mode=mode,
        folder=data_folder(data),
        host=host,
        port=port,
        workers=workers or _usual_workers(),
        with_demo=_wants_demo(mode, demo_),
        with_history=history is not False,
        as_json=as_json,
    )
    with instance.lock_folder(plan.folder):
        asyncio.run(until_stopped(_start(plan)))


def _usual_workers() -> int:
    """Returns one API process for two CPUs, because PostgreSQL and the worker need CPUs too.

    A second process on two CPUs lowers the rate, because smaller batches share each statement.
    """
    return max(1, min(USUAL_WORKERS_MAX, (os.cpu_count() or 1) // 2))


def _wants_demo(mode: Mode, wanted: bool | None) -> bool:
    """Returns whether to create the demo merchant.

    By default, the demo is created in development mode if its package is installed.
    """
    if wanted is None:
        return mode is Mode.DEVELOPMENT and development.find() is not None
    if wanted:
        development.require()
    return wanted


class _Plan(msgspec.Struct, frozen=True):
    mode: Mode
    folder: Path
    host: str
    port: int
    workers: int
    with_demo: bool
    with_history: bool
    as_json: bool


async def _start(plan: _Plan) -> Supervisor:
    supervisor = Supervisor()
    try:
        await _start_programs(plan, supervisor)
    except BaseException:
        await supervisor.stop()
        raise
    return supervisor


async def _start_programs(plan: _Plan, supervisor: Supervisor) -> None:
    began = time.monotonic()
    postgres.check_version(plan.folder)
    log_folder = _fresh_folders(plan.folder)
    listener = listen(plan.host, plan.port)
    environment = {
        **os.environ,
        "MANILLA_MODE": plan.mode,
        "MANILLA_DATA": str(plan.folder),
        "MANILLA_BASE_URL": os.environ.get("MANILLA_BASE_URL")
        or local_address(plan.host, listener.getsockname()[1]),
        "PROMETHEUS_MULTIPROC_DIR": str(plan.folder / "metrics"),
    }
    secret_sources.override(environment, _master_key(plan))
    secret_sources.override(environment, await _database(plan, supervisor, log_folder))
    settings = Settings.read(environment, assumed_mode=plan.mode)
    await _migrate(settings)
    await _prove_master_key(settings)
    simulator_url, seeded, worker = "", None, None
    if plan.with_demo:
        simulator_url = await _start_simulator(plan, supervisor, environment, listener, log_folder)
    first, *further = _api_programs(plan, listener, environment, log_folder)
    await supervisor.start(first)
    if plan.with_demo:
        history_folder = plan.folder if plan.with_history else None
        seeded = await _seed(settings, simulator_url, history_folder)
        if plan.with_history:
            worker = development.require().history_command(plan.folder, simulator_url)
    _write_running(plan, settings)
    # Imported here, so that the import runs while the API process starts.
    from manilla.cli.running.summary import print_summary

    await _until_ready(plan.host, listener.getsockname()[1], log_folder)
    seconds = time.monotonic() - began
    # Start the other programs after the first API process, so that they do not slow down its start.
    for each in (*further, _worker_program(worker, environment, log_folder)):
        await supervisor.start(each)
    if plan.as_json:
        print_json({"base_url": settings.base_url, "mode": settings.mode, "demo": seeded})
    else:
        print_summary(settings, seeded, plan.folder, seconds, fills_history=worker is not None)


def _api_programs(
    plan: _Plan, listener: socket.socket, environment: dict[str, str], log_folder: Path
) -> list[Program]:
    programs = [api_program(listener, number + 1, environment) for number in range(plan.workers)]
    log_file = log_folder / "api.log"
    return [msgspec.structs.replace(each, log_file=log_file) for each in programs]


def _worker_program(
    command: list[str] | None, environment: dict[str, str], log_folder: Path
) -> Program:
    return Program(
        name="worker",
        command=command or program.command("worker"),
        environment=environment,
        log_file=log_folder / "worker.log",
    )


def _write_running(plan: _Plan, settings: Settings) -> None:
    urls = (settings.base_url, settings.database_url, settings.migration_url)
    instance.write_running(plan.folder, Running(os.getpid(), settings.mode, *urls))


def _fresh_folders(folder: Path) -> Path:
    log_folder = folder / "logs"
    log_folder.mkdir(exist_ok=True)
    # Delete the metrics files of the previous run's processes.
    shutil.rmtree(folder / "metrics", ignore_errors=True)
    (folder / "metrics").mkdir()
    for file in log_folder.glob("*.log"):
        if file.stat().st_size > LOG_BYTES_MAX:
            file.rename(file.with_suffix(".log.1"))
    return log_folder


async def _database(plan: _Plan, supervisor: Supervisor, log_folder: Path) -> dict[str, str]:
    """Starts PostgreSQL and returns its URLs, unless the database's URL is given."""
    if secret_sources.is_given(os.environ, "MANILLA_DATABASE_URL"):
        return {}
    binaries, cache = _named_folder("MANILLA_POSTGRES_BIN"), _named_folder("MANILLA_POSTGRES_CACHE")
    cluster = await asyncio.to_thread(postgres.prepare, plan.folder, binaries, cache)
    log_file = log_folder / "postgres.log"
    await supervisor.start(cluster.program(log_file))
    await postgres.wait_until_ready(cluster, log_file)
    await postgres.create_database(cluster.url(postgres.SUPERUSER, "postgres"), cluster.passwords)
    return {
        "MANILLA_DATABASE_URL": cluster.url(postgres.APPLICATION),
        "MANILLA_MIGRATION_URL": cluster.url(postgres.OWNER),
    }


def _named_folder(variable: str) -> Path | None:
    folder = os.environ.get(variable)
    return Path(folder) if folder else None


def _master_key(plan: _Plan) -> dict[str, str]:
    if secret_sources.is_given(os.environ, "MANILLA_MASTER_KEY"):
        return {}
    instance.ensure_master_key(plan.folder)
    return {"MANILLA_MASTER_KEY": (plan.folder / "master.key").read_text()}


async def _migrate(settings: Settings) -> None:
    from manilla.sql import migrate

    if not await migrate.is_current(settings.database_url):
        await migrate.upgrade(settings.migration_url, settings.database_url)


async def _prove_master_key(settings: Settings) -> None:
    db = await Database.open(settings.database_url, size=1, name="manilla up")
    try:
        await master_key.verify(db, Keyring(settings.master_keys))
    finally:
        await db.close()


async def _start_simulator(
    plan: _Plan,
    supervisor: Supervisor,
    environment: dict[str, str],
    platform: socket.socket,
    log_folder: Path,
) -> str:
    """Starts the simulator of the three providers and returns its base URL.

    The simulator listens on the port after the API's port or, if it is taken, on a free port.
    """
    try:
        listener = listen(plan.host, platform.getsockname()[1] + 1)
    except (InstanceRefusal, OverflowError):
        listener = listen(plan.host, 0)
    here = local_address(plan.host, platform.getsockname()[1])
    base_url = local_address(plan.host, listener.getsockname()[1])
    await supervisor.start(
        Program(
            name="simulator",
            command=program.command("simulator", str(listener.fileno()), base_url, here),
            environment=environment,
            sockets=[listener],
            log_file=log_folder / "simulator.log",
        )
    )
    return base_url


async def _seed(
    settings: Settings, simulator_url: str, history_folder: Path | None
) -> development.Demo | None:
    db = await Database.open(settings.database_url, size=1, name="manilla up")
    try:
        keyring = Keyring(settings.master_keys)
        return await development.require().seed(
            db, keyring, settings.base_url, simulator_url, history_folder
        )
    finally:
        await db.close()


async def _until_ready(host: str, port: int, log_folder: Path) -> None:
    deadline = time.monotonic() + time_limits.current.api_ready_seconds
    while not await _answers(host, port):
        if time.monotonic() > deadline:
            raise InstanceRefusal(f"The API does not respond; see its log {log_folder}/api.log.")
        await asyncio.sleep(0.05)


async def _answers(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(time_limits.current.api_probe_seconds):
            reader, writer = await asyncio.open_connection(reachable(host), port)
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: manilla\r\nconnection: close\r\n\r\n")
            status = await reader.readline()
            writer.close()
            return b" 200 " in status
    except (OSError, TimeoutError):
        return False
