"""`manilla serve`, `worker`, `simulator` and `migrate`: the processes of a production system."""

import asyncio
import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from manilla import development, program, secret_sources
from manilla.cli.instance import Data, InstanceRefusal, environment_of
from manilla.cli.output import Json, Output
from manilla.kit import logs, time_limits
from manilla.kit.embedded.process import Program, Supervisor, until_stopped
from manilla.settings import DRAIN_SECONDS_MAX, Mode, Settings, apply_limits, read_mode

Host = Annotated[str, typer.Option(help="The address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")]
Workers = Annotated[int | None, typer.Option(min=1, max=64, help="Number of API processes.")]

MetricsHost = Annotated[str, typer.Option(help="The address to serve metrics on.")]
MetricsPort = Annotated[
    int | None, typer.Option(min=1, max=65535, help="The port to serve metrics on. Default: none.")
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = None,
    data: Data = None,
    _as_json: Json = False,
) -> None:
    """Serve the API and the pages. MANILLA_MODE defaults to production."""
    logs.configure("api")
    _settings(data)
    listener = listen(host, port)
    if (workers or 1) == 1:
        listener.set_inheritable(True)
        program.become("serve", str(listener.fileno()))
    asyncio.run(until_stopped(_serve_many(listener, workers or 1)))


def worker(
    metrics_host: MetricsHost = "127.0.0.1",
    metrics_port: MetricsPort = None,
    data: Data = None,
    _as_json: Json = False,
) -> None:
    """Run the worker. MANILLA_MODE defaults to production."""
    logs.configure("worker")
    _settings(data)
    program.become("worker", *([metrics_host, str(metrics_port)] if metrics_port else []))


def simulator(
    host: Host = "127.0.0.1",
    port: Port = 8001,
    platform: Annotated[
        str, typer.Option(metavar="URL", help="The URL to send webhooks to.")
    ] = "http://127.0.0.1:8000",
    _data: Data = None,
    as_json: Json = False,
) -> None:
    """Simulate providers A, B and C over HTTP, with faults on demand. Not for production."""
    logs.configure("simulator")
    mode = read_mode(os.environ, Mode.DEVELOPMENT)
    development.require()
    listener = listen(host, port)
    base_url = local_address(host, listener.getsockname()[1])
    if mode is not Mode.PRODUCTION:
        text = f"The simulator is running at {base_url}/control"
        Output(as_json).print_text(text, {"base_url": base_url})
    listener.set_inheritable(True)
    program.become("simulator", str(listener.fileno()), base_url, platform.rstrip("/"))


def migrate(data: Data = None, as_json: Json = False) -> None:
    """Migrate the database to this version, through MANILLA_MIGRATION_URL if it is set."""
    from manilla.sql.migrate import newest_revision, upgrade

    settings = _settings(data)
    asyncio.run(upgrade(settings.migration_url, settings.database_url))
    version = newest_revision()
    text = f"The database is at version {version}."
    Output(as_json).print_text(text, {"version": version})


def _settings(data: Path | None) -> Settings:
    """Reads settings from environment variables or, with --data, from an instance's folder."""
    if data is not None:
        secret_sources.override(os.environ, environment_of(data))
    settings = Settings.read(os.environ, assumed_mode=Mode.PRODUCTION)
    apply_limits(os.environ, settings.mode)
    return settings


def api_program(listener: socket.socket, number: int, environment: dict[str, str]) -> Program:
    """Returns the program of an API process. All API processes share a listening socket."""
    return Program(
        name=f"api {number}",
        command=program.command("serve", str(listener.fileno())),
        environment=environment,
        sockets=[listener],
        stop_seconds=DRAIN_SECONDS_MAX + time_limits.current.program_stop_seconds,
        group="api",
    )


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        raise InstanceRefusal(f"Cannot listen on {host}:{port}: {error.strerror}.") from error
    listener.listen(2048)
    return listener


def reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def local_address(host: str, port: int) -> str:
    host = reachable(host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _serve_many(listener: socket.socket, workers: int) -> Supervisor:
    # This import sets PROMETHEUS_MULTIPROC_DIR, which all processes share.
    from manilla.kit import prometheus  # noqa: F401

    supervisor = Supervisor()
    for number in range(1, workers + 1):
        await supervisor.start(api_program(listener, number, dict(os.environ)))
    return supervisor
