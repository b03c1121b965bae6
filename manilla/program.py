"""Runs the programs of an installation: `python -X program -m manilla NAME ARGUMENTS`.

A program's process loads only what the program needs, and no libraries for the command line. The
commands `manilla serve`, `worker` and `simulator` validate their options and then replace
themselves with the program.
"""

import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from manilla.kit.errors import reported_in_one_line

# Only the command line needs these libraries. If rich is not blocked, structlog imports it.
UNUSED = ("pydantic", "rich")

MARK = "program"  # a -X option, so that the command line still contains `-m manilla serve`


def command(name: str, *arguments: str) -> list[str]:
    """Returns the command that starts a program: `serve`, `worker` or `simulator`."""
    return [sys.executable, "-X", MARK, "-m", "manilla", name, *arguments]


def become(name: str, *arguments: str) -> NoReturn:
    """Replaces this process with a program that keeps its process id and environment."""
    words = command(name, *arguments)
    os.execv(words[0], words)  # noqa: S606


def _run(main: Coroutine[Any, Any, None]) -> None:
    import asyncio

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def serve(fd: str) -> None:
    import socket

    from manilla import app
    from manilla.kit import logs, tracing
    from manilla.settings import Mode, Settings, apply_limits

    logs.configure("api")
    settings = Settings.read(os.environ, assumed_mode=Mode.PRODUCTION)
    apply_limits(os.environ, settings.mode)
    with tracing.export("api", settings.otlp_url):
        _run(app.serve(settings, socket.socket(fileno=int(fd))))


def worker(metrics_host: str = "", metrics_port: str = "") -> None:
    """Runs the worker, which also serves the metrics if a port is given."""
    import contextlib

    from manilla.kit import logs, prometheus, tracing
    from manilla.settings import Mode, Settings, apply_limits
    from manilla.worker import work

    logs.configure("worker")
    settings = Settings.read(os.environ, assumed_mode=Mode.PRODUCTION)
    apply_limits(os.environ, settings.mode)
    with contextlib.ExitStack() as stack:
        stack.enter_context(tracing.export("worker", settings.otlp_url))
        if metrics_port:
            stack.enter_context(prometheus.serving(metrics_host, int(metrics_port)))
        _run(work(settings))


def simulator(fd: str, base_url: str, platform_url: str) -> None:
    import socket

    from manilla import development
    from manilla.kit import logs
    from manilla.settings import Mode, read_mode

    logs.configure("simulator")
    simulation = development.require().simulate(
        socket.socket(fileno=int(fd)),
        mode=read_mode(os.environ, Mode.DEVELOPMENT),
        base_url=base_url,
        platform_url=platform_url,
    )
    _run(simulation)


PROGRAMS: dict[str, Callable[..., None]] = {
    "serve": serve,
    "worker": worker,
    "simulator": simulator,
}


def main() -> None:
    for library in UNUSED:
        sys.modules[library] = None  # type: ignore[assignment]  # makes every import of the library fail
    name, *arguments = sys.argv[1:]
    with reported_in_one_line():
        PROGRAMS[name](*arguments)
