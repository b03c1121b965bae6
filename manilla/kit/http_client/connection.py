"""A connection to a server. Sends one request at a time and parses the response."""

import asyncio
import select
from typing import cast

import httptools
import msgspec

from manilla.kit.http_client.errors import (
    Disconnected,
    HttpError,
    IncompleteReply,
    MalformedReply,
)
from manilla.kit.http_client.urls import Origin

# HEAD_BYTES_MAX limits the size of a response's headers.
# Chunk sizes and trailers may take HEAD_BYTES_MAX bytes plus FRAMING_SHARE times the body's size.
HEAD_BYTES_MAX = 64 * 1024
FRAMING_SHARE = 8
SWITCHING_PROTOCOLS = 101


class HttpReply(msgspec.Struct):
    """A response, which is filled in while its data arrives."""

    status: int | None = None  # None until the response's headers have arrived
    headers: dict[str, str] = {}  # names in lower case
    body: bytearray = msgspec.field(default_factory=bytearray)
    is_cut: bool = False  # whether the body was truncated because it is too large


class HttpConnection(asyncio.Protocol):
    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.has_received = False  # whether any byte of the current response has arrived
        self._transport: asyncio.Transport
        self._closed = asyncio.Event()
        self._readable = select.poll()
        # Completes when the current exchange (a request and its response) has ended.
        self._ended: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._readable.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    @property
    def is_quiet(self) -> bool:
        """Returns True if the server has neither sent data on this idle connection nor closed it.

        The socket is polled because the event loop may not have read its data yet.
        """
        return self.is_open and not self._readable.poll(0)

    async def exchange(self, request: bytes, reply: HttpReply, body_max: int) -> None:
        """Sends the request and stores the response in `reply`.

        Closes the connection if it cannot be reused.
        """
        if not self.is_open:
            raise Disconnected  # the server closed it at once
        self._reply, self._body_max = reply, body_max
        self._bytes_received = self._header_bytes = 0
        self._is_complete = self._is_until_close = self._is_kept = self.has_received = False
        self._ended = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        # Accept small syntax errors that occur on merchants' servers and that browsers accept.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._transport.write(request)
        try:
            await self._ended
        except BaseException:
            self.abort()
            raise
        if not self._is_kept or (self.is_open and self._transport.get_write_buffer_size()):
            self.abort()

    def abort(self) -> None:
        self._fail(None)
        self._transport.abort()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def data_received(self, data: bytes) -> None:
        if self._ended is None or self._ended.done():
            # Data that arrives without a request could be mistaken for the next request's response.
            self.abort()
            return
        self.has_received = True
        self._bytes_received += len(data)
        try:
            self._parser.feed_data(data)
            self._limit_framing()
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, MalformedReply) as error:
            self._is_kept = False  # never reuse a connection that has sent invalid data
            if not self._is_complete:
                self._end(MalformedReply(str(error)))
        if self._is_complete:
            self._end(None)

    def _limit_framing(self) -> None:
        body_bytes = len(self._reply.body)
        if self._bytes_received - body_bytes > HEAD_BYTES_MAX + FRAMING_SHARE * body_bytes:
            raise MalformedReply("too large")

    def connection_lost(self, error: Exception | None) -> None:
        self._closed.set()
        if error is None and self._ended is not None and self._is_until_close:
            self._end(None)
        self._fail(error if isinstance(error, OSError) else None)

    def _fail(self, cause: OSError | None) -> None:
        """Ends the current exchange with an error, because the connection is closed."""
        if self._ended is not None and not self._ended.done():
            self._end(Disconnected(cause) if self._reply.status is None else IncompleteReply())

    def _end(self, error: HttpError | None) -> None:
        assert self._ended is not None
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._is_kept = False
            self._ended.set_exception(error)

    # The parser calls the following methods.

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._is_kept = False  # a second response
        else:
            self._reply.headers.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value)
        if self._header_bytes > HEAD_BYTES_MAX:
            raise MalformedReply("too large")
        if self._reply.status is None:  # not a trailer
            headers, key = self._reply.headers, name.decode("latin-1").lower()
            text = value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._is_complete or self._is_interim(status):
            return
        headers = self._reply.headers
        self._reply.status = status
        self._is_kept = self._parser.should_keep_alive()
        is_chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        self._is_until_close = not is_chunked and "content-length" not in headers

    def on_body(self, part: bytes) -> None:
        if self._is_complete:
            return
        reply = self._reply
        reply.body += part
        if len(reply.body) > self._body_max:
            del reply.body[self._body_max :]
            reply.is_cut = self._is_complete = True
            self._is_kept = False

    def on_message_complete(self) -> None:
        if not self._is_interim(self._parser.get_status_code()):
            self._is_complete = True

    @staticmethod
    def _is_interim(status: int) -> bool:
        return 100 <= status < 200 and status != SWITCHING_PROTOCOLS
