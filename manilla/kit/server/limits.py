"""uvicorn's HTTP protocol class, extended with limits and with errors in the API's format."""

import asyncio
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from manilla.kit import http, ids, strict_json, time_limits
from manilla.kit.server.clients import ClientConnections
from manilla.kit.server.pacing import PacedFlow

HEAD_BYTES_MAX = 32 * 1024
HEADERS_MAX = 200
# Chunk sizes, extensions and trailers may be as large as headers plus this share of the body.
# The average chunk of a large body therefore has at least about 100 bytes.
FRAMING_SHARE = 1 / 16
# The time limit restarts after each part of this size, so slow clients can upload a document.
BODY_PART_BYTES = 64 * 1024


class LimitedProtocol(HttpToolsProtocol):
    """Limits the size of a request's headers, the time until a request is complete, and the number
    of connections of one address.

    Every byte counts either toward the body or toward the limit for headers.
    """

    flow: PacedFlow
    _framing_bytes = 0  # bytes outside of bodies since headers or a request were last completed
    _body_bytes = 0  # number of received bytes of this request's body
    _has_advanced = False  # whether the received data completed a request or its headers
    _head_size = 0  # total size of this request's headers
    _part_bytes = 0
    _hosts = 0
    _in_head = True
    _in_message = False
    _phase = 0  # changes whenever the time limit for receiving data restarts
    _limited_phase = 0  # the last phase for which a time limit was set
    _deadline: asyncio.TimerHandle | None = None
    _active_at = 0.0
    _problem = "Invalid HTTP request received."
    _is_admitted = False

    def __init__(self, *given: Any, clients: ClientConnections, **named: Any) -> None:
        super().__init__(*given, **named)
        self._clients = clients

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = PacedFlow(transport, self.loop, self._parse_part, self.pipeline)
        self._is_admitted = self._clients.admit(self._address())
        if not self._is_admitted:
            self.transport.abort()
            return
        self._await_within(time_limits.current.head_seconds, self.transport.abort)

    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_admitted:
            self._clients.release(self._address())
        self._stop_awaiting()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)
        # These objects refer to the connection. Otherwise only a full garbage collection, which is
        # rare and slow, would free the memory of closed connections.
        self.flow.stop()
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._active_at = self.loop.time()
        self.flow.receive(data)

    def _parse_part(self, data: bytes) -> None:
        body_bytes = self._body_bytes
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response(self._problem)
        if self._has_advanced:
            self._has_advanced, self._framing_bytes = False, 0
        else:
            self._framing_bytes += len(data) - (self._body_bytes - body_bytes)
            self._limit_framing()
        if self._in_message:
            self._limit_wait()
        elif self._deadline is not None and self._phase:
            self._stop_awaiting()

    def _limit_framing(self) -> None:
        if self._framing_bytes <= HEAD_BYTES_MAX or self.transport.is_closing():
            return
        if self._in_head or not self._in_message:
            self.send_400_response("The request's headers are too large.")
        elif self._framing_bytes > HEAD_BYTES_MAX + self._body_bytes * FRAMING_SHARE:
            self.send_400_response("The body's chunks are too small, or its trailers too large.")

    def _limit_wait(self) -> None:
        """Limits the time until the rest of an incomplete request arrives."""
        if self._limited_phase == self._phase:
            return
        self._limited_phase = self._phase
        if self._in_head:
            self._await_within(time_limits.current.head_seconds, self.transport.abort)
        else:
            self._await_within(time_limits.current.body_seconds, self._end_slow_body)

    def _await_within(self, seconds: float, otherwise: Callable[[], None]) -> None:
        self._stop_awaiting()
        self._deadline = self.loop.call_later(seconds, self._end_wait, seconds, otherwise)

    def _end_wait(self, seconds: float, otherwise: Callable[[], None]) -> None:
        # The client may have sent data that this process has not read yet.
        if self.flow.is_stopped:
            self._await_within(seconds, otherwise)
        else:
            otherwise()

    def _stop_awaiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_slow_body(self) -> None:
        """Sends a 400 response, or closes the connection if a response has already started.

        An application that waits for the body receives a disconnect message.
        """
        if self.cycle is not None and self.cycle.response_started:
            self.transport.close()
        else:
            self.send_400_response("The body did not arrive in time.")

    def _parse(self, data: bytes) -> None:
        """Parses received data. Ignores requests to switch protocols, as RFC 9110 (7.8) allows."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                # The parser would treat a body after these headers as data of the other protocol.
                # Parse the headers again without the Upgrade header.
                data = self._head_without_offer() + data[offer.args[0] :]

    def _head_without_offer(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        if method == b"CONNECT":  # CONNECT always requests an upgrade, which is not supported
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
            # Ignore trailers after the body, because they could override headers that a proxy set.
            return
        name = name.lower()
        self._head_size += len(name) + len(value)
        if len(self.headers) > HEADERS_MAX:
            return  # the request is rejected when its headers are complete
        if name == b"host":
            self._hosts += 1
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
            # The parser decodes only chunked. With `gzip, chunked`, the body would stay compressed.
            self._problem = "The only supported transfer coding is chunked."
            raise ValueError
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._has_advanced = True
        self._part_bytes = 0
        self._phase += 1
        is_large = len(self.url) + self._head_size > HEAD_BYTES_MAX
        if is_large or len(self.headers) > HEADERS_MAX:
            # The parser reports this exception to _parse_part as an invalid request.
            self._problem = "The request's headers are too large."
            raise ValueError
        # See RFC 9112, 3.2. HTTP/1.0 requests, such as health checks, may omit the Host header.
        if self._hosts > 1 or (self._hosts == 0 and self.parser.get_http_version() == "1.1"):
            self._problem = "A request must have exactly one Host header."
            raise ValueError
        if not self.parser.should_upgrade():
            self.begin_request()

    def begin_request(self) -> None:
        """Passes the request to the ASGI application. The body may still be incomplete."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._part_bytes += len(body)
        if self._part_bytes >= BODY_PART_BYTES:
            self._part_bytes = 0
            self._phase += 1
        self.add_body(body)

    def add_body(self, body: bytes) -> None:
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_message = False
        self._has_advanced = True
        self._body_bytes = 0
        if not self.parser.should_upgrade():
            self.end_body()

    def end_body(self) -> None:
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.timeout_keep_alive_task is None:
            self._close_when_idle_for(self.timeout_keep_alive)
        self.flow.resume_reading()

    def _unset_keepalive_if_required(self) -> None:
        """Does nothing, because the timer's handler checks whether the connection is idle."""

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
        if self._owes_an_answer() or self._has_answered():
            # Close the connection without a response if an earlier request has no response yet.
            # The client would mistake the 400 for the earlier request's response.
            self.transport.close()
            return
        body = strict_json.encode({"error": msg, "error_code": "VALIDATION_FAILED"})
        head = (
            f"content-length: {len(body)}\r\nx-request-id: {ids.new_request_id()}\r\n"
            "connection: close\r\n\r\n"
        )
        fixed = b"".join(b"%b: %b\r\n" % header for header in http.JSON_HEADERS)
        self.transport.write(STATUS_LINE[400] + fixed + head.encode() + body)
        self.transport.close()

    def _has_answered(self) -> bool:
        """Returns True if the response has started while the request is still arriving."""
        is_current = self._in_message and not self._in_head and self.cycle is not None
        return is_current and self.cycle.response_started

    def _owes_an_answer(self) -> bool:
        """Returns True if an earlier, complete request on this connection has no response yet."""
        cycle = self.cycle
        is_whole = cycle is not None and not cycle.more_body and not cycle.response_complete
        return is_whole or bool(self.pipeline)
