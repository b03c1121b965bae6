"""A provider API that returns exactly the bytes that a test sets, and records its requests."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from tests.support import clock


class Recorded(msgspec.Struct, frozen=True):
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answering(status: int, document: Any) -> Behaviour:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return raw_answer(
        b"HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b"
        % (status, len(raw), raw)
    )


def raw_answer(raw: bytes) -> Behaviour:
    async def behave(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()

    return behave


async def hang(_writer: asyncio.StreamWriter) -> None:
    """Sends nothing, so that the call reaches its time limit on the event loop's clock."""
    clock.end_calls()


class Scripted:
    def __init__(self) -> None:
        self.port = 0
        self.reset()

    def reset(self) -> None:
        self.recorded: list[Recorded] = []
        self.behaviour: Behaviour = answering(500, {})
        # Maps paths to fixed responses, for calls that precede the tested call, such as a login.
        self.fixed: dict[str, Behaviour] = {}

    @property
    def calls(self) -> list[Recorded]:
        """Returns the recorded requests, except requests that have a fixed response."""
        return [each for each in self.recorded if each.target not in self.fixed]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answers(self, status: int, document: Any) -> None:
        self.behaviour = answering(status, document)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *lines = head.strip().split("\r\n")
            headers = {k.lower(): v for k, v in (each.split(": ", 1) for each in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, target, _ = line.split(" ")
            self.recorded.append(Recorded(method, target, headers, body))
            behaviour = self.fixed.get(target, self.behaviour)
            await behaviour(writer)
            if behaviour is hang:
                await reader.read()  # The server waits until the client closes the connection.
        writer.close()


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Scripted]:
    scripted = Scripted()
    server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    scripted.port = server.sockets[0].getsockname()[1]
    try:
        yield scripted
    finally:
        server.close()
