"""The process that forks a child for each isolated call: `python -m manilla.kit.isolation.process`.

Standard input is a socket on which the parent sends a task and the call's own socket. Only this
process imports the libraries, so a call starts within milliseconds. It never handles a file
itself, so a file cannot affect later calls. It has no secrets: its environment has no variable of
Manilla. It ends as soon as its parent ends, because the socket is then closed.
"""

import contextlib
import importlib
import os
import resource
import signal
import socket
import traceback
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.isolation.wire import (
    TASK_BYTES_MAX,
    Failed,
    Outcome,
    Rejected,
    Returned,
    Task,
)

NICE = 10  # payments and payouts get the processor first


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent may still finish requests
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes children that have ended
    with contextlib.suppress(OSError):  # not permitted by a system call filter
        os.nice(NICE)
    parent = socket.socket(fileno=0)
    while True:
        sent, files, _, _ = socket.recv_fds(parent, TASK_BYTES_MAX, 1)
        if not sent:
            return
        task = msgspec.msgpack.decode(sent, type=Task)
        with socket.socket(fileno=files[0]) as call:
            _begin(task, call, parent)


def _begin(task: Task, call: socket.socket, parent: socket.socket) -> None:
    function = _load(task.function)
    if os.fork() != 0:
        return
    status = 1
    try:
        parent.close()
        _limit(task)
        _respond(call, function)
        status = 0
    finally:
        os._exit(status)


def _load(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return loaded


def _limit(task: Task) -> None:
    """Makes the kernel end this process when it exceeds a limit."""
    # A timer's signal writes no core dump, unlike the signal of RLIMIT_CPU.
    signal.setitimer(signal.ITIMER_PROF, task.cpu_seconds)
    signal.setitimer(signal.ITIMER_REAL, max(task.seconds, 0.001))  # 0 would disable the timer
    resource.setrlimit(resource.RLIMIT_AS, (task.memory_bytes, task.memory_bytes))


def _respond(call: socket.socket, function: Callable[..., Any]) -> None:
    given = b"".join(iter(lambda: call.recv(1 << 20), b""))
    call.sendall(msgspec.msgpack.encode(_outcome(function, given)))


def _outcome(function: Callable[..., Any], given: bytes) -> Outcome:
    try:
        hints = get_type_hints(function)
        hints.pop("return")
        values = msgspec.msgpack.decode(given, type=tuple[tuple(hints.values())])  # type: ignore[misc]
        return Returned(msgspec.Raw(msgspec.msgpack.encode(function(*values))))
    except Refusal as refusal:
        return Rejected(refusal.text)
    except MemoryError:
        os._exit(1)  # a limit, as if the kernel had ended this process
    except Exception:
        return Failed(traceback.format_exc())


if __name__ == "__main__":
    main()
