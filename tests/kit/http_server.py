"""An HTTP server that responds with the bytes that a test sets, including invalid responses."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class SentRequest(NamedTuple):
    connection: int
    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        found = [value for each, value in self.headers if each.lower() == name.lower()]
        assert len(found) <= 1
        return found[0] if found else None


class RawServer:
    def __init__(self) -> None:
        self.requests: list[SentRequest] = []
        # the responses to the next requests; later requests get 200
        self.answers: list[bytes | Answer] = []
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()
        self.most_open = 0
        self.port = 0
        self.scheme = "http"
        self.stop: Callable[[], None]  # accepts no more connections

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        self.open.add(writer)
        self.most_open = max(self.most_open, len(self.open))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *lines = head[:-4].split("\r\n")
                headers = [(name, value) for name, _, value in (e.partition(": ") for e in lines)]
                lengths = [int(v) for name, v in headers if name.lower() == "content-length"]
                body = await reader.readexactly(lengths[0]) if lengths else b""
                self.requests.append(SentRequest(number, line, headers, body))
                answer = self.answers.pop(0) if self.answers else OK
                if isinstance(answer, bytes):
                    writer.write(answer)
                else:
                    await answer(reader, writer)
        self.open.discard(writer)
        writer.close()


def closes(*parts: bytes, is_reset: bool = False) -> Answer:
    """Sends the parts, one after another, and closes the connection."""

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        if is_reset:
            at_once = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        raise ConnectionResetError

    return answer


def in_parts(*parts: bytes) -> Answer:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)

    return answer


async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Sends nothing until the client closes the connection."""
    await reader.read()


@contextlib.asynccontextmanager
async def serving(
    host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    server = RawServer()
    running = await asyncio.start_server(server.serve, host, port, ssl=tls)
    server.port = running.sockets[0].getsockname()[1]
    server.scheme = "http" if tls is None else "https"
    server.stop = running.close
    try:
        yield server
    finally:
        running.close()
        for writer in list(server.open):
            writer.transport.abort()
        while server.open:
            await asyncio.sleep(0.01)
