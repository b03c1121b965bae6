"""A PostgreSQL proxy that cuts the connection before or after a chosen SQL statement or commit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import StrEnum
from urllib.parse import parse_qs, urlsplit

from tests.support.timeouts import TIMEOUT_SECONDS

READY_FOR_QUERY = (
    # PostgreSQL sends this message when no transaction is open, so earlier writes are committed.
    b"Z\x00\x00\x00\x05I"
)


class Cut(StrEnum):
    BEFORE = "before"  # The server never receives the message.
    AFTER = "after"  # The server has executed the message, but its response is lost.


class Proxy:
    """Forwards all traffic until a message contains the text that a test has set."""

    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._url = f"{parts.scheme}://{parts.username}:{parts.password}@127.0.0.1:{{port}}"
        self._path = parts.path
        self._port = 0
        self._needle = b""
        self._after = b""
        self._nth = 0
        self._cut = Cut.BEFORE
        self._links: set[asyncio.Task[None]] = set()
        self._freezing = b""
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_closed = False
        self.has_cut = False

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return self._url.format(port=self._port) + self._path + "?sslmode=disable"

    def cut(self, cut: Cut, needle: str, nth: int = 1, *, after: str = "") -> None:
        """Cuts the connection once, at the nth message that contains `needle`.

        If `after` is set, only transactions that contain this text count, because processes also
        commit their own statistics.
        """
        self._cut, self._needle, self._nth, self.has_cut = cut, needle.encode(), nth, False
        self._after = after.encode()

    def forget(self) -> None:
        self._needle = b""

    def freeze(self) -> None:
        """Simulates a hanging host, which still accepts connections but transfers no data."""
        self._flowing.clear()

    def freeze_at(self, needle: str) -> None:
        """Freezes at the message that contains `needle`, which the server does not receive."""
        self._freezing = needle.encode()

    def thaw(self) -> None:
        self._flowing.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        # The proxy may have accepted this connection just before it closed.
        if self._is_closed:
            writer.transport.abort()
            return
        self._links.add(link)
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
        except asyncio.CancelledError:
            writer.transport.abort()
            self._links.discard(link)
            return
        answers = asyncio.create_task(self._pass_on(server_reader, writer))
        is_in_transaction = False  # True within a transaction in which the text `after` was sent
        try:
            while data := await reader.read(1 << 20):
                is_in_transaction = self._after in data or (
                    is_in_transaction and b"BEGIN;" not in data
                )
                if self._freezing and self._freezing in data:
                    self._freezing = b""
                    self.freeze()
                await self._flowing.wait()
                if not (is_in_transaction and self._is_hit(data)):
                    server_writer.write(data)
                    continue
                if self._cut is Cut.AFTER:
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)
                    server_writer.write(data)
                    await _until_done(server_reader)
                self.has_cut = True
                writer.transport.abort()
                break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            # Close the connections first, as this task may be canceled while it awaits `answers`.
            for each in (writer, server_writer):
                each.transport.abort()
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            self._links.discard(link)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                await self._flowing.wait()
                writer.write(data)
        writer.close()  # also after a broken connection, or the client would wait for its limit

    def _is_hit(self, data: bytes) -> bool:
        if not self._needle or self._needle not in data:
            return False
        self._nth -= 1
        if self._nth:
            return False
        self._needle = b""
        return True

    async def close(self) -> None:
        self._is_closed = True
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)
        await asyncio.sleep(0)  # Aborted connections are closed in the next event-loop iteration.


async def _until_done(reader: asyncio.StreamReader) -> None:
    seen = b""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not seen.endswith(READY_FOR_QUERY):
            data = await reader.read(1 << 20)
            if not data:
                return
            seen = (seen + data)[-64:]


@contextlib.asynccontextmanager
async def proxied(database_url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(database_url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy._port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
