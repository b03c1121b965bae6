"""Starts programs in order, restarts programs that exit, and stops them in reverse order."""

import asyncio
import contextlib
import ctypes
import itertools
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec
import structlog

from manilla.kit import time_limits

log = structlog.get_logger(__name__)

REVIVE_AFTER_SECONDS = (0.1, 0.2, 0.5, 1.0)
STEADY_AFTER_SECONDS = 30
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class SystemAccount(msgspec.Struct, frozen=True):
    """The operating system user that a program runs as."""

    uid: int
    gid: int


def _stop_seconds() -> float:
    return time_limits.current.program_stop_seconds


class Program(msgspec.Struct, frozen=True):
    name: str
    command: Sequence[str]
    environment: dict[str, str]
    log_file: Path | None = None  # None if the program writes to our standard output
    folder: Path | None = None
    account: SystemAccount | None = None
    # These sockets are passed to the program. They stay open here in case the program restarts.
    sockets: Sequence[socket.socket] = ()
    stop_signal: int = signal.SIGTERM
    stop_seconds: float = msgspec.field(default_factory=_stop_seconds)
    group: str = ""  # consecutive programs of the same group are stopped together


class Supervisor:
    def __init__(self) -> None:
        self._keepers: list[tuple[Program, asyncio.Task[None]]] = []
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, program: Program) -> None:
        self._running[program.name] = await spawn(program)
        self._keepers.append((program, asyncio.create_task(self._keep(program))))

    def pid(self, name: str) -> int | None:
        process = self._running.get(name)
        return process.pid if process and process.returncode is None else None

    async def stop(self) -> None:
        """Stops the programs in reverse order, so that no program outlives its dependencies."""
        for _, group in itertools.groupby(reversed(self._keepers), _group):
            await asyncio.gather(*(self._end(program, keeper) for program, keeper in group))

    async def _end(self, program: Program, keeper: asyncio.Task[None]) -> None:
        keeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await keeper
        # Close our copies of the sockets. Otherwise, new connections would wait and then be reset.
        for each in program.sockets:
            each.close()
        await end(self._running[program.name], program)

    async def _keep(self, program: Program) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            code = await self._running[program.name].wait()
            failures = 0 if time.monotonic() - began > STEADY_AFTER_SECONDS else failures + 1
            pause = REVIVE_AFTER_SECONDS[min(failures, len(REVIVE_AFTER_SECONDS) - 1)]
            log.error("program_ended", program=program.name, code=code, again_in_seconds=pause)
            await asyncio.sleep(pause)
            self._running[program.name] = await spawn(program)


def _group(kept: tuple[Program, asyncio.Task[None]]) -> str:
    return kept[0].group or kept[0].name


async def until_stopped(starting: Coroutine[Any, Any, Supervisor]) -> None:
    """Starts the programs, and stops them on a signal, even if they are still starting."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    started = asyncio.create_task(starting)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((started, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        started.cancel()
        await asyncio.gather(started, return_exceptions=True)
        return
    supervisor = started.result()
    await stopping
    await supervisor.stop()


async def spawn(program: Program) -> asyncio.subprocess.Process:
    with contextlib.ExitStack() as files:
        output = None
        if program.log_file is not None:
            output = files.enter_context(program.log_file.open("ab"))
        account = program.account
        return await asyncio.create_subprocess_exec(
            *program.command,
            env=program.environment,
            cwd=program.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[each.fileno() for each in program.sockets],
            # Ctrl-C does not reach a separate session, so programs can be stopped in order.
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
            preexec_fn=_die_with_parent(program.stop_signal),
        )


async def end(process: asyncio.subprocess.Process, program: Program) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(program.stop_signal)
    try:
        await asyncio.wait_for(process.wait(), program.stop_seconds)
    except TimeoutError:
        log.error("program_killed", program=program.name)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def follow_parent() -> None:
    """Makes the kernel send SIGTERM to this process when its parent process ends."""
    _die_with_parent(signal.SIGTERM)()
    if os.getppid() == 1:
        raise SystemExit("The parent process is gone.")


def _die_with_parent(signal_number: int) -> Callable[[], None]:
    # Prepare the function before the fork, because few calls are safe between fork and exec.
    def set_parent_death_signal() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)

    return set_parent_death_signal
