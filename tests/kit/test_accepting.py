"""A busy process accepts many connections in each iteration of its event loop."""

import asyncio
import socket
from contextlib import ExitStack

import uvloop

from manilla.kit.server import accepting

CONNECTIONS = 3 * accepting.ACCEPTED_MAX


async def _iterations() -> int:
    """Returns how many iterations of the event loop the connections take until all are accepted."""
    accepted: list[asyncio.BaseTransport] = []

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.append(transport)

    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=2048))
        servers = [
            await loop.create_server(Accepted, sock=each) for each in accepting.listeners(listener)
        ]
        for _ in range(CONNECTIONS):  # the event loop is busy while these clients connect
            stack.enter_context(socket.create_connection(listener.getsockname()))
        iterations = 0
        while len(accepted) < CONNECTIONS:
            iterations += 1
            await asyncio.sleep(0)
        for transport in accepted:
            transport.close()
        for server in servers:
            server.close()
            await server.wait_closed()
    return iterations


async def test_an_iteration_accepts_many_connections() -> None:
    iterations = await asyncio.to_thread(uvloop.run, _iterations())
    assert iterations <= CONNECTIONS / 4
