"""Limits on the input that the web server reads, parses and buffers for one connection."""

import asyncio
import itertools
from typing import Any, NamedTuple

import pytest
import uvicorn
from uvicorn.server import ServerState

from manilla.kit.http import respond
from manilla.kit.server.clients import ClientConnections
from manilla.kit.server.direct import HttpRequest, HttpResponse, Protocol
from manilla.kit.server.draining import Drain
from manilla.kit.server.limits import HEAD_BYTES_MAX, HEADERS_MAX
from manilla.kit.server.pacing import PART_BYTES
from manilla.kit.server.request_queue import RequestQueue

READ_BYTES = 256 * 1024  # The event loop reads this many bytes at once.
ENDLESS_BYTES = 8 * READ_BYTES

API, PAGE = b"/api/v1/order", b"/page"
HEAD = b"POST %b HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport(asyncio.Transport):
    """Delivers input like the event loop, which delivers nothing while reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = self.is_closed = False
        self.sent = bytearray()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Orders:
    """An API that accepts every request, and pages that read or ignore the body."""

    read_headers = frozenset((b"content-length",))

    body_bytes_max = 64 * 1024

    def direct(self, path: str) -> "Orders | None":
        return self if path.startswith("/api/") else None

    async def respond(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(413 if request.body is None else 200, b"", b"")

    def __init__(self, *, rejects: bool = True) -> None:
        self._rejects = rejects

    def busy(self) -> HttpResponse | None:
        return HttpResponse(503, b"", b"") if self._rejects else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body") and scope["path"] == "/page":
            pass
        await respond(send, 200, b"")


class Connection:
    def __init__(self, *, rejects: bool = True, is_full: bool = False) -> None:
        orders, queue = Orders(rejects=rejects), RequestQueue()
        if is_full:
            queue.is_full = lambda loop: True  # type: ignore[method-assign]
        config = uvicorn.Config(orders, ws="none", lifespan="off", log_config=None)
        self.transport = Transport()
        self.protocol = Protocol(
            config,
            ServerState(),
            {},
            asyncio.get_running_loop(),
            site=orders,
            drain=Drain(),
            queue=queue,
            clients=ClientConnections(),
        )
        self.protocol.connection_made(self.transport)
        self.parsed: list[int] = []  # the size of each input that the server passed to the parser
        self.protocol.parser = _Counting(self.protocol.parser, self.parsed)  # type: ignore[assignment]

    async def send(self, data: bytes) -> int:
        """Sends data until the server closes the connection. Returns the number of bytes read."""
        taken = 0
        while taken < len(data) and not self.transport.is_closed:
            if not self.transport.is_paused:
                self.protocol.data_received(data[taken : taken + READ_BYTES])
                taken += READ_BYTES
            await asyncio.sleep(0)
        while self.transport.is_paused and not self.transport.is_closed:
            await asyncio.sleep(0)
        return min(taken, len(data))

    def close(self) -> None:
        self.transport.is_closed = True
        self.protocol.connection_lost(None)


class _Counting:
    """A parser that records the size of each input."""

    def __init__(self, parser: Any, parsed: list[int]) -> None:
        self._parser, self._parsed = parser, parsed

    def feed_data(self, data: bytes) -> None:
        self._parsed.append(len(data))
        self._parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


class Endless(NamedTuple):
    """Input that repeats a part. A test creates the bytes, because all of them take much memory."""

    start: bytes
    part: bytes

    def bytes_to(self, path: bytes) -> bytes:
        return self.start.replace(b"%b", path, 1) + self.part * (ENDLESS_BYTES // len(self.part))


ENDLESS = {
    "one trailer": Endless(HEAD + b"1\r\na\r\n0\r\nX-T: ", b"a"),
    "the name of a trailer": Endless(HEAD + b"0\r\n", b"a"),
    "many trailers": Endless(HEAD + b"0\r\n", b"X-T: a\r\n"),
    "whitespace in a trailer": Endless(HEAD + b"0\r\nX-T:", b" "),
    "a chunk extension": Endless(HEAD + b"1;", b"a"),
    "the value of a chunk extension": Endless(HEAD + b"1;a=", b"a"),
    "the extension of the last chunk": Endless(HEAD + b"0;a=", b"a"),
    "a quoted chunk extension": Endless(HEAD + b'1;a="', b"a"),
    "the digits of a chunk size": Endless(HEAD, b"0"),
    "chunks of one byte": Endless(HEAD, b"1\r\na\r\n"),
    "chunks with extensions": Endless(HEAD, b"40;%b\r\n%b\r\n" % (b"a" * 64, b"a" * 64)),
    "blank lines before a request": Endless(b"", b"\r\n"),
    "blank lines after a request": Endless(b"GET %b HTTP/1.1\r\nHost: m\r\n\r\n", b"\r\n"),
    "one header": Endless(b"GET %b HTTP/1.1\r\nHost: m\r\nX-T: ", b"a"),
    "many headers": Endless(b"GET %b HTTP/1.1\r\nHost: m\r\n", b"X-T: a\r\n"),
    "whitespace in a header": Endless(b"GET %b HTTP/1.1\r\nHost: m\r\nX-T:", b" "),
    "folded headers": Endless(b"GET %b HTTP/1.1\r\nHost: m\r\nX-T: a\r\n", b" a\r\n"),
    "the URL": Endless(b"GET %b?", b"a"),
    "whitespace after the method": Endless(b"GET", b" "),
}


@pytest.mark.parametrize("path", [API, PAGE, b"/ignores-its-body"])
@pytest.mark.parametrize("what", ENDLESS)
async def test_endless_input_that_is_no_body_closes_the_connection(what: str, path: bytes) -> None:
    connection = Connection()
    taken = await connection.send(ENDLESS[what].bytes_to(path))
    assert connection.transport.is_closed
    assert taken <= READ_BYTES
    assert sum(connection.parsed) <= 3 * HEAD_BYTES_MAX
    assert connection.transport.sent.count(b"HTTP/1.1 ") <= (2 if "after a request" in what else 1)
    connection.close()


@pytest.mark.parametrize("path", [API, PAGE, b"/ignores-its-body"])
@pytest.mark.parametrize(
    "input_",
    [
        Endless(HEAD, b"1000\r\n%b\r\n" % (b"a" * 4096)),
        Endless(
            b"POST %%b HTTP/1.1\r\nHost: m\r\nContent-Length: %d\r\n\r\n" % ENDLESS_BYTES, b"a"
        ),
    ],
    ids=["chunks", "length"],
)
async def test_a_large_body_is_taken_in_small_parts(input_: Endless, path: bytes) -> None:
    connection = Connection()
    data = input_.bytes_to(path)
    assert await connection.send(data) == len(data)
    assert max(connection.parsed) <= PART_BYTES
    assert not connection.transport.is_closed
    connection.close()


@pytest.mark.parametrize("path", [API, PAGE, b"/ignores-its-body"])
async def test_requests_without_waiting_for_responses_do_not_fill_the_memory(path: bytes) -> None:
    connection = Connection()
    request = b"GET %b HTTP/1.1\r\nHost: m\r\n\r\n" % path
    count = READ_BYTES // len(request)
    waiting = []
    sending = asyncio.create_task(connection.send(request * count))
    while not sending.done():
        waiting.append(len(connection.protocol.pipeline))
        await asyncio.sleep(0)
    assert max(waiting) <= PART_BYTES // len(request) + 1
    for _ in itertools.takewhile(lambda _: connection.protocol.tasks, itertools.count()):
        await asyncio.sleep(0)
    assert connection.transport.sent.count(b"HTTP/1.1 200") == count
    connection.close()


async def test_small_chunks_and_trailers_of_an_ordinary_request_are_accepted() -> None:
    connection = Connection()
    body = b"10;a=b\r\n%b\r\n" % (b"a" * 16) * 1000
    trailers = b"0\r\n" + b"X-T: a\r\n" * 100 + b"\r\n"
    for _ in range(20):
        await connection.send(HEAD % API + body + trailers)
        while connection.protocol.tasks:
            await asyncio.sleep(0)
    assert connection.transport.sent.count(b"HTTP/1.1 200") == 20
    connection.close()


@pytest.mark.parametrize("path", [API, PAGE])
async def test_a_request_with_very_many_headers_is_rejected(path: bytes) -> None:
    connection = Connection()
    await connection.send(b"GET %b HTTP/1.1\r\nHost: m\r\n%b\r\n" % (path, b"a:\r\n" * HEADERS_MAX))
    assert connection.transport.sent.startswith(b"HTTP/1.1 400 ")
    connection.close()


@pytest.mark.parametrize(("rejects", "status"), [(True, b"503"), (False, b"200")])
async def test_an_application_can_accept_requests_during_overload(
    *, rejects: bool, status: bytes
) -> None:
    connection = Connection(rejects=rejects, is_full=True)
    await connection.send(b"GET %b HTTP/1.1\r\nHost: m\r\n\r\n" % API)
    while connection.protocol.tasks:
        await asyncio.sleep(0)
    assert connection.transport.sent.startswith(b"HTTP/1.1 %b " % status)
    connection.close()
