"""The HTTP protocol of the web server: limits, errors in the API's format, and direct responses.

The pages are an ASGI application. The merchant API is not: it takes each request as a whole and
returns a whole response, which costs less than ASGI's messages.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from typing import Protocol as Interface
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from manilla.kit import ids, strict_json
from manilla.kit.http import Header
from manilla.kit.serving import Drain, RequestQueue

HEAD_BYTES_MAX = 32 * 1024
HEAD_SECONDS_MAX = 15
BODY_SECONDS_MAX = 10
# After each of these many bytes of a body, the next may take BODY_SECONDS_MAX again, so that a
# phone can upload a document.
BODY_PART_BYTES = 64 * 1024
DIRECT_BODY_BYTES_MAX = 64 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class HttpRequest(msgspec.Struct):
    """A complete request for a direct response."""

    method: str
    path: str  # decoded
    target: bytes  # the path and query exactly as sent, because the signature covers these bytes
    query: bytes
    headers: Mapping[bytes, bytes]
    peer: str  # the IP address of the other end of the connection
    body: bytes | None = b""  # None if it is too large


class HttpResponse(msgspec.Struct):
    status: int
    body: bytes
    head: bytes  # header lines, each with its line end


class Direct(Interface):
    """Responds to whole requests."""

    read_headers: frozenset[bytes]

    def handles(self, path: str) -> bool: ...

    async def respond(self, request: HttpRequest) -> HttpResponse: ...

    def busy(self) -> HttpResponse:
        """Returns the response to a request that cannot be processed soon."""


class DirectCycle:
    """A request on a connection that gets a direct response.

    It has the attributes that uvicorn's protocol reads of its own class for requests.
    """

    __slots__ = (
        "body",
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

    def __init__(self, request: HttpRequest, *, keep_alive: bool) -> None:
        self.request = request
        self.keep_alive = keep_alive
        self.body = b""
        self.more_body = True
        self.is_next = False  # whether all earlier requests of the connection have their responses
        self.is_ready = False  # whether the body is complete or too large
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self.message_event = _nobody_waits


class _NobodyWaits:
    def set(self) -> None:
        pass


_nobody_waits = _NobodyWaits()


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits, errors in the API's format, and direct responses."""

    _head_bytes = 0  # received since the last complete request
    _head_size = 0  # of the URL and all headers of this request
    _part_bytes = 0
    _hosts = 0
    _in_head = True
    _in_message = False
    _phase = 0  # changes whenever the time limit for the next data begins again
    _limited_phase = 0  # the phase that `_deadline` limits
    _deadline: asyncio.TimerHandle | None = None
    _active_at = 0.0
    _problem = "Invalid HTTP request received."

    def __init__(
        self,
        *given: Any,
        direct: Direct | None = None,
        drain: Drain,
        queue: RequestQueue,
        **named: Any,
    ) -> None:
        super().__init__(*given, **named)
        self._direct = direct
        self._drain = drain
        self._queue = queue

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_within(HEAD_SECONDS_MAX, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_awaiting()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        self._active_at = self.loop.time()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response(self._problem)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The request's headers are too large.")
        if self._in_message:
            self._limit_wait()
        elif self._deadline is not None and self._phase:
            self._stop_awaiting()

    def _limit_wait(self) -> None:
        """Limits the time until the rest of a request arrives. Most requests arrive at once."""
        if self._limited_phase == self._phase:
            return
        self._limited_phase = self._phase
        if self._in_head:
            self._await_within(HEAD_SECONDS_MAX, self.transport.abort)
        else:
            self._await_within(BODY_SECONDS_MAX, self._end_slow_body)

    def _await_within(self, seconds: float, otherwise: Callable[[], None]) -> None:
        self._stop_awaiting()
        self._deadline = self.loop.call_later(seconds, otherwise)

    def _stop_awaiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_slow_body(self) -> None:
        """Responds 400, or closes the connection if a response has started.

        The application that waits for the body sees a disconnect.
        """
        if self.cycle is not None and self.cycle.response_started:
            self.transport.close()
        else:
            self.send_400_response("The body did not arrive in time.")

    def _parse(self, data: bytes) -> None:
        """Parses data. Ignores requests to switch protocols, as RFC 9110 (7.8) allows."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                # The parser treats everything after the header as the other protocol, including a
                # body. Feed it the header again, without the Upgrade field.
                data = self._head_without_offer() + data[offer.args[0] :]

    def _head_without_offer(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        if method == b"CONNECT":  # CONNECT always asks for an upgrade, and is not supported
            raise httptools.HttpParserError
        lines = [b"%b %b HTTP/%b" % (method, self.url, version.encode())]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def on_message_begin(self) -> None:
        self._in_head = self._in_message = True
        self._head_size = self._hosts = 0
        self._phase += 1
        self.url = b""
        self.headers = []
        self.expect_100_continue = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # ignore trailers after the body: they could override headers that a proxy set
        name = name.lower()
        self._head_size += len(name) + len(value)
        if name == b"host":
            self._hosts += 1
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = self._part_bytes = 0
        self._phase += 1
        if len(self.url) + self._head_size > HEAD_BYTES_MAX:
            # The parser passes this exception to data_received as an invalid request.
            raise ValueError
        version = self.parser.get_http_version()
        # RFC 9112, 3.2. HTTP/1.0 requests, such as health checks, may have no Host header.
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            self._problem = "A request must have exactly one Host header."
            raise ValueError
        if self.parser.should_upgrade():
            return
        raw_path, query = _split(self.url)
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        if self._direct is None or not self._direct.handles(path):
            self._begin_asgi()
            return
        request = HttpRequest(
            method=self.parser.get_method().decode(),
            path=path,
            target=self.url if self.url.startswith(b"/") else _joined(raw_path, query),
            query=query,
            headers=_read(self.headers, self._direct.read_headers),
            peer=self.client[0] if self.client else "",
        )
        keep_alive = version != "1.0" and self.parser.should_keep_alive()
        self._begin(DirectCycle(request, keep_alive=keep_alive))

    def _begin_asgi(self) -> None:
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def _begin(self, cycle: DirectCycle) -> None:
        earlier = self.cycle
        self.cycle = cycle  # type: ignore[assignment]
        if int(cycle.request.headers.get(b"content-length", b"0")) > DIRECT_BODY_BYTES_MAX:
            self._set_ready(cycle, None)
        if earlier is None or earlier.response_complete:
            self._set_next(cycle)
        else:  # answer requests that were sent at once in their order
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))  # type: ignore[arg-type]

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
        assert self._direct is not None
        # A client that sends without reading must wait in the queue.
        can_refuse = not self.pipeline and not self.flow.write_paused
        if can_refuse and self._queue.is_full(self.loop.time()):
            self._send(cycle, self._direct.busy())
        else:
            self._queue.add(self.loop, partial(self._create_task, cycle))

    def _create_task(self, cycle: DirectCycle) -> None:
        if cycle.disconnected:
            return  # the client has not waited for its turn, so nothing needs to happen
        task = self.loop.create_task(self._run(cycle))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _run(self, cycle: DirectCycle) -> None:
        assert self._direct is not None
        try:
            response = await self._direct.respond(cycle.request)
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
            b"%b%b%bcontent-length: %d\r\n%b\r\n%b"
            % (
                STATUS_LINE[response.status],
                _default_lines(self.server_state.default_headers),
                response.head,
                len(response.body),
                b"" if keep_alive else b"connection: close\r\n",
                b"" if cycle.request.method == "HEAD" else response.body,
            )
        )
        cycle.response_started = cycle.response_complete = True
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def on_body(self, body: bytes) -> None:
        self._part_bytes += len(body)
        if self._part_bytes >= BODY_PART_BYTES:
            self._part_bytes = 0
            self._phase += 1
        cycle: Any = self.cycle
        if type(cycle) is not DirectCycle:
            super().on_body(body)
        elif not cycle.is_ready:
            cycle.body += body
            if len(cycle.body) > DIRECT_BODY_BYTES_MAX:
                self._set_ready(cycle, None)

    def on_message_complete(self) -> None:
        self._in_message = False
        if self.parser.should_upgrade():
            return
        cycle: Any = self.cycle
        if type(cycle) is not DirectCycle:
            super().on_message_complete()
            return
        cycle.more_body = False
        if not cycle.is_ready:
            self._set_ready(cycle, cycle.body)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.timeout_keep_alive_task is None:
            self._close_when_idle_for(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        """Does nothing: the timer itself finds out whether the connection has been idle."""

    def _close_when_idle_for(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            seconds, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        left = self.timeout_keep_alive - (self.loop.time() - self._active_at)
        is_idle = not self._in_message and (self.cycle is None or self.cycle.response_complete)
        if not is_idle:
            self._close_when_idle_for(self.timeout_keep_alive)
        elif left > 0:
            self._close_when_idle_for(left)
        else:
            super().timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        if self._owes_an_answer():
            # Close without a response: the client would take this 400 for the response to its
            # earlier request, and would conclude that its payout was rejected.
            self.transport.close()
            return
        body = strict_json.encode({"error": msg, "error_code": "VALIDATION_FAILED"})
        head = (
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"x-request-id: {ids.new_request_id()}\r\nconnection: close\r\n"
            "cross-origin-resource-policy: same-origin\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[400] + head.encode() + body)
        self.transport.close()

    def _owes_an_answer(self) -> bool:
        """Whether an earlier, complete request on this connection still awaits its response."""
        cycle = self.cycle
        is_whole = cycle is not None and not cycle.more_body and not cycle.response_complete
        return is_whole or bool(self.pipeline)


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Returns the path and the query of a request target, not decoded."""
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
            # The parser leaves trailing whitespace, which is not part of the value.
            text = value.rstrip(b" \t")
            # Join repeated headers with a comma: the joined value matches no key and no signature,
            # so the request is rejected.
            headers[name] = headers[name] + b"," + text if name in headers else text
    return headers


def lines(headers: Iterable[Header]) -> bytes:
    """Returns headers as they are sent."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


_rendered: tuple[object, bytes] = (None, b"")


def _default_lines(headers: list[Header]) -> bytes:
    """Returns the server's own headers, which change once a second, when the date does."""
    global _rendered  # noqa: PLW0603
    if _rendered[0] is not headers:
        _rendered = headers, lines(headers)
    return _rendered[1]
