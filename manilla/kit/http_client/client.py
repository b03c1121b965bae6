"""The HTTP client, which sends requests over persistent connections."""

import asyncio
import re
from collections.abc import Coroutine, Mapping
from functools import lru_cache
from typing import Any, Self

from manilla.kit import tracing
from manilla.kit.http_client import urls
from manilla.kit.http_client.connecting import HttpConnector
from manilla.kit.http_client.connection import HttpConnection, HttpReply
from manilla.kit.http_client.errors import Disconnected, NotConnected
from manilla.kit.http_client.urls import Origin, Target
from manilla.kit.tracing import SpanKind

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
FORBIDDEN = re.compile(r"[\r\n\0]")


class HttpClient:
    """An HTTP client with a connection pool.

    Callers limit the total time of a call with `asyncio.timeout`. `connect_seconds` limits the time
    for opening a connection, after name resolution. `connections` limits the calls at the same
    time, and `open_max` the open connections, including those that are kept for later calls.
    """

    def __init__(
        self,
        *,
        connections: int,
        keepalive_seconds: float,
        open_max: int | None = None,
        connect_seconds: float | None = None,
        is_public_only: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._open_max = connections if open_max is None else open_max
        self._keepalive_seconds = keepalive_seconds
        self._connector = HttpConnector(connections, connect_seconds, is_public_only=is_public_only)
        self._headers = {**(headers or {}), "Accept-Encoding": "identity"}
        self._calls = asyncio.Semaphore(connections)
        self._calls_connecting = 0
        self._busy: set[HttpConnection] = set()
        self._idle: dict[Origin, list[HttpConnection]] = {}
        # When each idle connection is closed. The oldest connection comes first.
        self._idle_ends: dict[HttpConnection, float] = {}
        self._next_end: asyncio.TimerHandle | None = None  # one timer for all idle connections
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections. Requests in progress fail."""
        self._is_closed = True
        self._connector.close()
        if self._next_end is not None:
            self._next_end.cancel()
        connections = {*self._busy, *self._idle_ends}
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.wait_closed()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        body_max: int,
        reply: HttpReply | None = None,
    ) -> Coroutine[Any, Any, HttpReply]:
        """Sends a request and returns the response.

        If the caller passes `reply`, the response is stored there. If the call ends early, `reply`
        contains the part of the response that has arrived.
        """
        send = self._send_traced if tracing.is_on() else self._send
        return send(
            method, url, headers or {}, body, body_max, HttpReply() if reply is None else reply
        )

    async def _send_traced(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        body_max: int,
        reply: HttpReply,
    ) -> HttpReply:
        """Sends the request in a span of the current trace. A header names the span."""
        with tracing.step(f"{method} {urls.parse(url).host}", SpanKind.CLIENT) as span:
            if span is not None:
                headers = {**headers, tracing.HEADER: str(tracing.current())}
            await self._send(method, url, headers, body, body_max, reply)
            if span is not None and reply.status is not None:
                span.set_attribute("http.response.status_code", reply.status)
        return reply

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        body_max: int,
        reply: HttpReply,
    ) -> HttpReply:
        target = urls.parse(url)
        data = _encode(method, target, {**self._headers, **headers}, body)
        async with self._calls:
            kept = self._take(target.origin)
            if kept is None:
                connection = await self._connect(target.origin)
                return await self._exchange(connection, data, reply, body_max)
            try:
                return await self._exchange(kept, data, reply, body_max)
            except Disconnected as error:
                # The server closed the connection but may have received the request.
                # Only a GET request is repeated, because it changes nothing.
                if method != "GET" or kept.has_received:
                    raise
                try:
                    connection = await self._connect(target.origin)
                except NotConnected:
                    # A request was already written, so NotConnected would be wrong.
                    raise error from None
                return await self._exchange(connection, data, reply, body_max)

    async def _exchange(
        self, connection: HttpConnection, data: bytes, reply: HttpReply, body_max: int
    ) -> HttpReply:
        self._busy.add(connection)
        try:
            await connection.exchange(data, reply, body_max)
        finally:
            self._busy.discard(connection)
        if connection.is_open:
            self._keep(connection)
        return reply

    async def _connect(self, origin: Origin) -> HttpConnection:
        self._calls_connecting += 1
        try:
            in_use = len(self._busy) + self._calls_connecting
            if self._idle_ends and in_use + len(self._idle_ends) > self._open_max:
                self._drop(next(iter(self._idle_ends)))
            connection = await self._connector.connect(origin)
        finally:
            self._calls_connecting -= 1
        if self._is_closed:
            connection.abort()
            raise RuntimeError("the HTTP client is closed")
        return connection

    def _take(self, origin: Origin) -> HttpConnection | None:
        """Returns an idle connection that the server has not closed, or None."""
        while kept := self._idle.get(origin):
            connection = kept[-1]
            if connection.is_quiet:
                self._forget(connection)
                return connection
            self._drop(connection)
        return None

    def _keep(self, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        self._idle.setdefault(connection.origin, []).append(connection)
        end = self._idle_ends[connection] = loop.time() + self._keepalive_seconds
        if self._next_end is None:
            self._next_end = loop.call_at(end, self._drop_unused, loop)

    def _drop_unused(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next_end, now = None, loop.time()
        while self._idle_ends:
            connection, end = next(iter(self._idle_ends.items()))
            if end > now:
                self._next_end = loop.call_at(end, self._drop_unused, loop)
                break
            self._drop(connection)

    def _drop(self, connection: HttpConnection) -> None:
        self._forget(connection)
        connection.abort()

    def _forget(self, connection: HttpConnection) -> None:
        del self._idle_ends[connection]
        kept = self._idle[connection.origin]
        kept.remove(connection)
        if not kept:
            del self._idle[connection.origin]


def _encode(method: str, target: Target, headers: Mapping[str, str], body: bytes | None) -> bytes:
    if method not in METHODS:
        raise ValueError(f"The method {method!r} is not supported.")
    fields = {"Host": target.host, **headers}
    names = tuple(fields)
    if target.authorization is not None:
        fields["Authorization"] = target.authorization
        names += ("Authorization",)
    if body is not None or method != "GET":
        fields["Content-Length"] = str(len(body or b""))
        names += ("Content-Length",)
    if not _are_valid(names):
        raise ValueError("A header is repeated, or both the URL and a header have credentials.")
    if FORBIDDEN.search("".join(fields.values())):
        raise ValueError("A header has a line break.")
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    return f"{method} {target.path} HTTP/1.1\r\n{lines}\r\n".encode() + (body or b"")


@lru_cache(maxsize=256)  # cached, because few different lists of headers are sent
def _are_valid(names: tuple[str, ...]) -> bool:
    if FORBIDDEN.search("".join(names)):
        raise ValueError("A header has a line break.")
    return len({name.lower() for name in names}) == len(names)
