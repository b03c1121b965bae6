"""A merchant's notification receiver: an HTTP server whose behavior a test controls."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from tests.support import clock, limits
from tests.support.timeouts import TIMEOUT_SECONDS

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Received(msgspec.Struct, frozen=True):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Receiver:
    """An HTTP server that sends raw bytes, which allows invalid responses."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        # The receiver's behavior for the next requests. Later requests get 200.
        self.answers: list[Behave] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/ipn"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, value in (li.split(": ", 1) for li in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.received.append(Received(first.split()[1], headers, body))
            behave = self.answers.pop(0) if self.answers else answer(200)
            await behave(reader, writer)
        writer.close()

    async def until(self, count: int, seconds: float = TIMEOUT_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while len(self.received) < count:
                await asyncio.sleep(0.01)


def answer(status: int, body: bytes = b"ok", *headers: str) -> Behave:
    async def behave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(body)}", "Connection: close"]
        writer.write("\r\n".join([*lines, *headers]).encode() + b"\r\n\r\n" + body)
        await writer.drain()

    return behave


def raw(*parts: bytes, pause_seconds: float = 0, then_reset: bool = False) -> Behave:
    """Sends the parts of a response with a pause after each, and closes the connection."""

    async def behave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_seconds)
        if then_reset:
            writer.transport.abort()

    return behave


def hang(until: Callable[[], None] | None = None) -> Behave:
    """Sends nothing until the client closes the connection.

    `until` is called when the request has arrived.
    """

    async def behave(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        if until is not None:
            until()
        await reader.read()

    return behave


def drip() -> Behave:
    """Sends one byte at a time until the client closes the connection.

    Each byte arrives within the client's time limit, but the whole response would not.
    """

    async def behave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nx")
        while not writer.is_closing():
            await asyncio.sleep(0.001)
            clock.advance(limits.CALL_SECONDS / 100)
            writer.write(b"x")

    return behave


def endless() -> Behave:
    """Sends a response of up to two gigabytes."""
    return raw(b"HTTP/1.1 200 OK\r\n\r\n", *[b"x" * 65536] * 32768)


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
