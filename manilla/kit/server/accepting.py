"""Accepts new connections fast enough, also when the process is busy."""

import resource
import socket

from manilla.kit import time_limits

ACCEPTED_MAX = 32  # number of connections that an iteration of the event loop accepts
FILES_MAX = 65536  # as in the systemd units


def listeners(listener: socket.socket) -> list[socket.socket]:
    """Returns the listening socket and copies of it, for `uvicorn.Server.serve`.

    In each iteration of the event loop, uvloop accepts one connection per listening socket. An
    iteration of a busy process takes many milliseconds, so that with a single listening socket, new
    connections would wait for seconds, and so would the requests that clients send over them.

    The kernel closes a connection if its client reads nothing for `unread_seconds` although a
    response waits, whatever this process does meanwhile. Connections inherit the socket's option.
    """
    milliseconds = round(time_limits.current.unread_seconds * 1000)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return [listener, *(listener.dup() for _ in range(ACCEPTED_MAX - 1))]


def allow_many_files() -> None:
    """Raises this process's limit of open files, so that it can hold thousands of connections.

    The usual limit of 1024 is for programs that call `select`. It is lower than the number of
    connections that two addresses can open.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, FILES_MAX)), hard))
