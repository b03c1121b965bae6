"""Accepts new connections fast enough, also when the process is busy."""

import socket

ACCEPTED_MAX = 32  # number of connections that an iteration of the event loop accepts


def listeners(listener: socket.socket) -> list[socket.socket]:
    """Returns the listening socket and copies of it, for `uvicorn.Server.serve`.

    In each iteration of the event loop, uvloop accepts one connection per listening socket. An
    iteration of a busy process takes many milliseconds, so that with a single listening socket, new
    connections would wait for seconds, and so would the requests that clients send over them.
    """
    return [listener, *(listener.dup() for _ in range(ACCEPTED_MAX - 1))]
