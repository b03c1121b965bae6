"""Serves the merchant API and the providers' webhooks without ASGI.

The pages are an ASGI application. A `Direct` application instead receives a complete request and
returns a complete response, which has less overhead than ASGI's messages.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, runtime_checkable
from typing import Protocol as Interface
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from manilla.kit.http import Header
from manilla.kit.server.clients import ClientConnections
from manilla.kit.server.draining import Drain
from manilla.kit.server.limits import LimitedProtocol
from manilla.kit.server.request_queue import RequestQueue

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpRequest(msgspec.Struct, eq=False, weakref=True):
    method: str
    path: str  # percent-decoded path
    target: bytes  # the path and query exactly as sent, because the signature covers these bytes
    query: bytes
    headers: Mapping[bytes, bytes]  # the headers that the application reads
    peer: str  # the IP address of the other end of the connection
    body: bytes | None = b""  # None if the body is too large
    waited_seconds: float = 0.0  # time that the request spent in the queue
    all_headers: Sequence[Header] = ()  # every header as sent


class HttpResponse(msgspec.Struct):
    status: int
    body: bytes
    head: bytes  # header lines, each with its line ending


class Direct(Interface):
    """An application that receives complete requests and returns complete responses."""

    read_headers: frozenset[bytes]
    body_bytes_max: int

    async def respond(self, request: HttpRequest) -> HttpResponse: ...

    def busy(self) -> HttpResponse | None:
        """Returns the response during overload, or None if the application rejects no requests."""


@runtime_checkable
class TakesUploads(Interface):
    """A `Direct` application that accepts bodies above `body_bytes_max` from known senders.

    Such a body needs a Content-Length header.
    """

    def upload_bytes_max(self, request: HttpRequest) -> int:
        """Returns the maximum body size of this request."""

    async def admits(self, request: HttpRequest) -> bool:
        """Returns whether the sender may upload this body. It is called before the body is read."""


class Site(Interface):
    def direct(self, path: str) -> Direct | None:
        """Returns the application for this path, or None if the ASGI application serves it."""


class DirectCycle:
    """A request to a `Direct` application, with its connection's state.

    This class has the attributes that uvicorn's protocol expects of its own request class.
    """

    __slots__ = (
        "app",
        "body",
        "body_bytes_max",
        "disconnected",
        "is_next",
        "is_ready",
        "keep_alive",
        "message_event",
        "more_body",
        "request",
        "response_complete",
        "response_started",
    )

    def __init__(self, app: Direct, request: HttpRequest, *, keep_alive: bool) -> None:
        self.app = app
        self.request = request
        self.keep_alive = keep_alive
        self.body = bytearray()
        self.body_bytes_max = app.body_bytes_max
        self.more_body = True
        self.is_next = False  # whether all earlier requests on the connection have been answered
        self.is_ready = False  # whether the body is complete or too large
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self.message_event = _nobody_waits


class _NobodyWaits:
    def set(self) -> None:
        pass


_nobody_waits = _NobodyWaits()


class Protocol(LimitedProtocol):
    def __init__(
        self,
        *given: Any,
        site: Site | None = None,
        drain: Drain,
        queue: RequestQueue,
        clients: ClientConnections,
        **named: Any,
    ) -> None:
        super().__init__(*given, clients=clients, **named)
        self._site = site
        self._drain = drain
        self._queue = queue

    def begin_request(self) -> None:
        if self.transport.is_closing():
            return  # nobody would get the response
        raw_path, query = _split(self.url)
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        app = self._site.direct(path) if self._site is not None else None
        if app is None:
            super().begin_request()
            return
        request = HttpRequest(
            method=self.parser.get_method().decode(),
            path=path,
            target=self.url if self.url.startswith(b"/") else _joined(raw_path, query),
            query=query,
            headers=_read(self.headers, app.read_headers),
            peer=self.client[0] if self.client else "",
            all_headers=self.headers,
        )
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self._begin(DirectCycle(app, request, keep_alive=keep_alive))

    def _begin(self, cycle: DirectCycle) -> None:
        earlier = self.cycle
        self.cycle = cycle  # type: ignore[assignment]
        length = int(cycle.request.headers.get(b"content-length", b"0"))
        if length > cycle.body_bytes_max:
            self._begin_upload(cycle, length)
        if earlier is None or earlier.response_complete:
            self._set_next(cycle)
        else:  # respond to pipelined requests in order
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))  # type: ignore[arg-type]

    def _begin_upload(self, cycle: DirectCycle, length: int) -> None:
        """Rejects the body, or reads it only after the application has admitted its sender."""
        app = cycle.app
        if not isinstance(app, TakesUploads) or length > app.upload_bytes_max(cycle.request):
            self._set_ready(cycle, None)
            return
        cycle.body_bytes_max = length
        self.flow.pause_reading()
        task = self.loop.create_task(self._admit(app, cycle))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _admit(self, app: TakesUploads, cycle: DirectCycle) -> None:
        is_admitted = False
        try:
            is_admitted = await app.admits(cycle.request)
        except Exception as error:
            self.logger.error("An upload could not be admitted.", exc_info=error)
        if cycle.disconnected or cycle.is_ready:
            return
        if not is_admitted:
            self._set_ready(cycle, None)
        self.flow.resume_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if type(cycle) is DirectCycle:
            self._set_next(cycle)
        else:
            super()._start_asgi_task(cycle, app)

    def _set_next(self, cycle: DirectCycle) -> None:
        cycle.is_next = True
        if cycle.is_ready:
            self._start(cycle)
        elif self.expect_100_continue:
            self.transport.write(_CONTINUE)

    def _set_ready(self, cycle: DirectCycle, body: bytes | None) -> None:
        cycle.is_ready = True
        cycle.request.body = body
        if cycle.is_next:
            self._start(cycle)

    def _start(self, cycle: DirectCycle) -> None:
        # A client that sends requests without reading responses must wait in the queue.
        can_refuse = not self.pipeline and not self.flow.write_paused
        busy = cycle.app.busy() if can_refuse and self._queue.is_full(self.loop) else None
        if busy is None:
            self._queue.add(self.loop, partial(self._create_task, cycle))
        else:
            self._send(cycle, busy)

    def _create_task(self, cycle: DirectCycle, waited_seconds: float) -> None:
        if cycle.disconnected:
            return  # the client disconnected while its request was queued
        cycle.request.waited_seconds = waited_seconds
        task = self.loop.create_task(self._run(cycle))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _run(self, cycle: DirectCycle) -> None:
        try:
            response = await cycle.app.respond(cycle.request)
        except Exception as error:
            self.logger.error("A direct response failed.", exc_info=error)
            self.transport.close()
            return
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if not cycle.disconnected:
            self._send(cycle, response)

    def _send(self, cycle: DirectCycle, response: HttpResponse) -> None:
        keep_alive = cycle.keep_alive and not self._drain.is_on
        self.transport.write(
            b"%b%b%b%b%b\r\n%b"
            % (
                STATUS_LINE[response.status],
                _default_lines(self.server_state.default_headers),
                response.head,
                _length_line(response),
                b"" if keep_alive else b"connection: close\r\n",
                b"" if cycle.request.method == "HEAD" else response.body,
            )
        )
        cycle.response_started = cycle.response_complete = True
        # The connection may stay open for a long time, so free the request's memory.
        del cycle.request
        cycle.body = bytearray()
        if not self._in_message:
            self.headers = []
        if not keep_alive and cycle.more_body:
            # Closing the connection now would reset it, and the client would lose the response.
            cycle.keep_alive = False
        elif not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def add_body(self, body: bytes) -> None:
        cycle: Any = self.cycle
        if type(cycle) is not DirectCycle:
            super().add_body(body)
        elif not cycle.is_ready:
            cycle.body += body
            if len(cycle.body) > cycle.body_bytes_max:
                self._set_ready(cycle, None)

    def end_body(self) -> None:
        cycle: Any = self.cycle
        if type(cycle) is not DirectCycle:
            super().end_body()
            return
        cycle.more_body = False
        if not cycle.is_ready:
            self._set_ready(cycle, bytes(cycle.body))
        elif cycle.response_complete and not cycle.keep_alive:
            self.transport.close()


def _length_line(response: HttpResponse) -> bytes:
    """Returns the Content-Length header, which a response with status 204 must not have."""
    return b"" if response.status == 204 else b"content-length: %d\r\n" % len(response.body)


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Returns the path and the query of a request target, without decoding them."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path, parsed.query or b""


def _joined(path: bytes, query: bytes) -> bytes:
    return path + b"?" + query if query else path


def _read(sent: Iterable[Header], wanted: frozenset[bytes]) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for name, value in sent:
        if name in wanted:
            # The parser keeps trailing whitespace, which is not part of the header's value.
            text = value.rstrip(b" \t")
            # The values of a repeated header are joined with a comma and match no key or signature.
            headers[name] = headers[name] + b"," + text if name in headers else text
    return headers


def lines(headers: Iterable[Header]) -> bytes:
    """Encodes headers as the lines of an HTTP response."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


_rendered: tuple[object, bytes] = (None, b"")


def _default_lines(headers: list[Header]) -> bytes:
    """Encodes the server's default headers. The result is cached and changes once a second."""
    global _rendered  # noqa: PLW0603
    if _rendered[0] is not headers:
        _rendered = headers, lines(headers)
    return _rendered[1]
