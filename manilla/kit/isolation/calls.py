"""Calls a function in a process of its own, with limits of time and memory.

A parser of strangers' files can take very long or much memory, although its input is small. In a
thread, it would also hold the interpreter's lock, so that this process could not serve anything
else.
"""

import asyncio
import contextlib
import os
import socket
import sys
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from manilla.kit import time_limits
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.isolation.wire import Failed, Outcome, Rejected, Returned, Task

log = structlog.get_logger(__name__)

_OUTCOMES: msgspec.msgpack.Decoder[Outcome] = msgspec.msgpack.Decoder(Outcome)

Result = TypeVar("Result")


class IsolatedCallFailed(Exception):
    """The function raised an exception that is not a `Refusal`. The message is its traceback."""


class IsolatedCalls(Generic[Result]):
    """Calls to one function. Rejects calls if too many are waiting.

    The function is named `package.module:name`, so that this process need not import it. Its
    parameters and its result are encoded by their types. Its refusals are raised as `refusal`. If
    a call exceeds a limit, `refusal` is raised with the text `too_long`.
    """

    def __init__(
        self,
        function: str,
        result: type[Result],
        *,
        refusal: type[Refusal],
        too_long: str,
        at_once: int = 1,
        waiting_max: int = 4,
    ) -> None:
        self._function = function
        self._result = result
        self._refusal = refusal
        self._too_long = too_long
        self._at_once = at_once
        self._calls_max = at_once + waiting_max
        self._running = set[asyncio.Task[Result]]()
        self._free: asyncio.Semaphore | None = None

    async def run(self, *values: Any) -> Result:
        if len(self._running) >= self._calls_max:
            raise Unavailable
        running = asyncio.create_task(self._run(values))
        # If a caller stops waiting, its call continues and still counts toward the limit.
        self._running.add(running)
        running.add_done_callback(self._end)
        return await asyncio.shield(running)

    def _end(self, running: "asyncio.Task[Result]") -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # otherwise asyncio logs an exception that no caller retrieves

    async def _run(self, values: tuple[Any, ...]) -> Result:
        if self._free is None:
            self._free = asyncio.Semaphore(self._at_once)
        async with self._free:
            seconds = time_limits.current.isolated_call_seconds
            match await call(Task(self._function, seconds), msgspec.msgpack.encode(values)):
                case Returned(value):
                    return msgspec.msgpack.decode(value, type=self._result)
                case Rejected(text):
                    raise self._refusal(text)
                case Failed(traceback):
                    raise IsolatedCallFailed(traceback)
                case None:
                    log.warning("isolated_call_killed", function=self._function)
                    raise self._refusal(self._too_long)


async def call(task: Task, given: bytes) -> Outcome | None:
    """Returns the outcome of a call with these encoded values, or None if it exceeded a limit."""
    ours, theirs = socket.socketpair()
    with theirs:
        _process.start_call(task, theirs)
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    try:
        async with asyncio.timeout(task.seconds):
            writer.write(given)
            await writer.drain()
            writer.write_eof()
            return _OUTCOMES.decode(await reader.read())
    except (TimeoutError, OSError, msgspec.DecodeError):
        return None
    finally:
        writer.close()


class _Process:
    """The process that forks the calls. It starts with the first call."""

    def __init__(self) -> None:
        self._id: int | None = None
        self._control: socket.socket | None = None

    def start_call(self, task: Task, call: socket.socket) -> None:
        encoded = msgspec.msgpack.encode(task)
        try:
            self._send(encoded, call)
        except OSError:  # the process was killed, for example because the memory ran out
            self._end()
            self._send(encoded, call)

    def _send(self, encoded: bytes, call: socket.socket) -> None:
        if self._control is None:
            self._start()
        assert self._control is not None
        socket.send_fds(self._control, [encoded], [call.fileno()])

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._id = os.posix_spawn(
                sys.executable,
                [sys.executable, "-P", "-m", "manilla.kit.isolation.process"],
                _environment(),
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)],
            )

    def _end(self) -> None:
        assert self._control is not None
        self._control.close()
        self._control = None
        if self._id is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._id, 0)


def _environment() -> dict[str, str]:
    """Returns our environment without our own variables, because some of them are secrets."""
    others = {name: text for name, text in os.environ.items() if not name.startswith("MANILLA_")}
    return {**others, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


_process = _Process()
