"""One client cannot keep many connections open, or keep one open without reading."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from ipaddress import ip_network
from typing import Any

import pytest
import structlog
import uvicorn
import uvloop

from manilla.kit.http import respond
from manilla.kit.server import accepting, clients
from manilla.kit.server.clients import ClientConnections
from manilla.kit.server.direct import HttpRequest, HttpResponse, Protocol
from manilla.kit.server.draining import Drain
from manilla.kit.server.request_queue import RequestQueue
from tests.support.limits import limited
from tests.support.waiting import until_true

LARGE = b"x" * 8 * 1024 * 1024  # more than the kernel buffers for a client


class Files:
    """An API and pages that respond with a large file."""

    read_headers: frozenset[bytes] = frozenset()
    body_bytes_max = 0

    def direct(self, path: str) -> "Files | None":
        return self if path.startswith("/api/") else None

    async def respond(self, _request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, LARGE, b"")

    def busy(self) -> None:
        return None

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        await respond(send, 200, LARGE)


@contextlib.asynccontextmanager
async def _serving(connections: ClientConnections) -> AsyncIterator[tuple[int, uvicorn.Server]]:
    files, listener = Files(), socket.create_server(("127.0.0.1", 0))
    protocol: Any = partial(
        Protocol, site=files, drain=Drain(), queue=RequestQueue(), clients=connections
    )
    config = uvicorn.Config(files, http=protocol, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve(sockets=accepting.listeners(listener)))
    await until_true(lambda: server.started)
    try:
        yield listener.getsockname()[1], server
    finally:
        server.should_exit = True
        await task


def _connect(port: int, address: str = "127.0.0.1") -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.bind((address, 0))
    client.connect(("127.0.0.1", port))
    return client


class Released(ClientConnections):
    """Counts the connections that have been closed."""

    closed = 0

    def release(self, address: str) -> None:
        super().release(address)
        self.closed += 1


async def _read_nothing(request: bytes) -> None:
    connections = Released()
    with limited(unread_seconds=0.2):
        async with _serving(connections) as (port, _):
            with _connect(port) as client:
                client.sendall(request)
                await until_true(lambda: connections.closed == 1)


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
@pytest.mark.parametrize("path", ["/api/file", "/file"])
async def test_a_connection_whose_client_does_not_read_is_closed(
    path: str, connection: str
) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: m\r\nConnection: {connection}\r\n\r\n"
    await asyncio.to_thread(uvloop.run, _read_nothing(request.encode()))


async def test_one_address_can_have_a_limited_number_of_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "CONNECTIONS_MAX", 2)
    async with _serving(ClientConnections()) as (port, server):
        opened = server.server_state.connections
        with _connect(port), _connect(port, "127.0.0.2"):
            with _connect(port):
                await until_true(lambda: len(opened) == 3)
                with _connect(port) as third:
                    third.setblocking(False)
                    assert await asyncio.get_running_loop().sock_recv(third, 1) == b""
            await until_true(lambda: len(opened) == 2)
            with _connect(port):
                await until_true(lambda: len(opened) == 3)


async def test_a_trusted_proxy_can_have_any_number_of_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "CONNECTIONS_MAX", 1)
    proxies = ClientConnections([ip_network("127.0.0.1")])
    async with _serving(proxies) as (port, server):
        with _connect(port), _connect(port), _connect(port):
            await until_true(lambda: len(server.server_state.connections) == 3)


def test_an_ipv6_network_counts_as_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CONNECTIONS_MAX", 2)
    connections = ClientConnections()
    assert connections.admit("2001:db8::1")
    assert connections.admit("2001:db8::2")
    with structlog.testing.capture_logs() as logs:
        assert not connections.admit("2001:db8::3")
        assert not connections.admit("2001:db8::3")
    assert [each["event"] for each in logs] == ["connections_limited"]
    connections.release("2001:db8::1")
    assert connections.admit("2001:db8::3")


@pytest.fixture
def usual_file_limit() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("usual_file_limit")
def test_the_process_may_open_more_files_than_two_clients_have_connections() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    accepting.allow_many_files()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == min(hard, accepting.FILES_MAX)
    assert soft > 2 * clients.CONNECTIONS_MAX
