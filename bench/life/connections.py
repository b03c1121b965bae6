"""Keep-alive connections from the world to Manilla, and the parsing of messages."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from bench.load import is_whole

_RETRY_AFTER = re.compile(rb"\r\nretry-after: (\d+)", re.IGNORECASE)


class Connections:
    """A pool of connections. Repeats a request that gets 503, as merchants do."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self._free: asyncio.Queue[_Connection] = asyncio.Queue()
        for _ in range(number):
            self._free.put_nowait(_Connection())

    async def call(self, request: Callable[[], bytes]) -> bytes:
        while True:
            connection = await self._free.get()
            try:
                response = await connection.call(self._port, request())
            finally:
                self._free.put_nowait(connection)
            if not response.startswith(b"HTTP/1.1 503"):
                return response
            wait = _RETRY_AFTER.search(response)
            await asyncio.sleep(float(wait[1]) if wait else 1)


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: Any = None
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    async def call(self, port: int, request: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            await loop.create_connection(lambda: self, "127.0.0.1", port)
        self._answer = loop.create_future()
        self._transport.write(request)
        return await self._answer

    def connection_made(self, transport: Any) -> None:
        self._transport, self._received = transport, b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._answer is not None and is_whole(self._received):
            answer, self._answer = self._answer, None
            received, self._received = self._received, b""
            answer.set_result(received)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("The connection was closed."))


def read(pattern: re.Pattern[bytes], message: bytes) -> str:
    """Returns the pattern's group, or raises an error, because the step before it has failed."""
    found = pattern.search(message)
    if found is None:
        raise RuntimeError(f"{pattern.pattern!r} is not in {message[:2000]!r}.")
    return found[1].decode()
