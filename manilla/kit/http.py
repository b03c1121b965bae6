"""HTTP at the connection level: limits on headers, request target, client address and body."""

import asyncio
import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from manilla.kit import ids, strict_json

HEAD_BYTES_MAX = 32 * 1024
HEAD_SECONDS_MAX = 15
BODY_SECONDS_MAX = 10
# After each of these many bytes of a body, the next may take BODY_SECONDS_MAX again, so that a
# phone can upload a document.
BODY_PART_BYTES = 64 * 1024
_TARGET = "manilla.target"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a limit on the header size and errors in the API's format."""

    _head_bytes = 0
    _part_bytes = 0
    _in_head = True
    _deadline: asyncio.TimerHandle | None = None  # time limit for the next data from the client
    _problem = "Invalid HTTP request received."

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_within(HEAD_SECONDS_MAX, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_awaiting()
        super().connection_lost(exc)

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

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response(self._problem)
        if self._in_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The request's headers are too large.")

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
        self._in_head = True
        self._await_within(HEAD_SECONDS_MAX, self.transport.abort)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Ignores trailers after the body: they could override headers that a proxy has set."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._part_bytes += len(body)
        if self._part_bytes >= BODY_PART_BYTES and self._deadline is not None:
            self._part_bytes = 0
            self._await_within(BODY_SECONDS_MAX, self._end_slow_body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = self._part_bytes = 0
        self._await_within(BODY_SECONDS_MAX, self._end_slow_body)
        if len(self.url) + sum(len(n) + len(v) for n, v in self.headers) > HEAD_BYTES_MAX:
            # The parser passes this exception to data_received as an invalid request.
            raise ValueError
        if self._has_wrong_host():
            self._problem = "A request must have exactly one Host header."
            raise ValueError
        if self.parser.should_upgrade():
            return
        super().on_headers_complete()
        # Keep the target exactly as sent: the signature covers these bytes, even a trailing
        # question mark.
        self.scope["state"][_TARGET] = self.url

    def _has_wrong_host(self) -> bool:
        """Whether the Host header is missing or repeated (RFC 9112, 3.2).

        HTTP/1.0 requests, such as health checks, may have no Host header.
        """
        hosts = sum(name == b"host" for name, _ in self.headers)
        return hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1")

    def on_message_complete(self) -> None:
        self._stop_awaiting()
        if self.parser.should_upgrade():
            return
        super().on_message_complete()

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


class BodyTooLarge(Exception):
    pass


class ClientGone(Exception):
    """The client disconnected, so there is nobody to respond to."""


def target(scope: dict[str, Any]) -> bytes:
    """Returns the path and query exactly as in the request line."""
    sent: bytes = scope.get("state", {}).get(_TARGET, b"")
    if sent.startswith(b"/"):
        return sent
    path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


JSON = b"application/json"
Header = tuple[bytes, bytes]


async def respond(
    send: Any, status: int, body: bytes, headers: Iterable[Header] = (), media_type: bytes = JSON
) -> None:
    """Sends a complete response."""
    length = str(len(body)).encode()
    every = [(b"content-type", media_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})


async def read_body(receive: Any, size_max: int) -> bytes:
    """Reads the whole body; raises BodyTooLarge as soon as it exceeds the limit.

    The protocol class closes connections that send the body too slowly.
    """
    chunks = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunks += message["body"]
        if len(chunks) > size_max:
            raise BodyTooLarge
        if not message.get("more_body"):
            return bytes(chunks)


def client_address(
    peer: str, forwarded_for: bytes | None, trusted_proxies: Sequence[Network]
) -> str:
    """Returns the nearest address that is not a trusted proxy, as the client's address.

    `forwarded_for` is ignored unless the peer is a trusted proxy.
    """
    if not trusted_proxies or forwarded_for is None or not is_within(peer, trusted_proxies):
        return peer
    nearest = peer
    for hop in reversed(forwarded_for.decode("latin-1").split(",")):
        address = hop.strip()
        if not _is_address(address):
            return nearest
        nearest = address
        if not is_within(address, trusted_proxies):
            return nearest
    return nearest


@lru_cache(maxsize=4096)  # cached, because merchants send the same URLs with every order
def is_web_address(text: str) -> bool:
    """Whether the text is an http or https URL with a host.

    Other schemes, such as javascript: and file:, are rejected because a browser could run or open
    them.
    """
    if _NOT_IN_ADDRESSES.search(text):
        return False
    try:
        parts = urlsplit(text)
        # The attribute raises ValueError for an invalid port, and for brackets without an IPv6
        # address.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


# Whitespace and control characters, which Python drops and browsers interpret differently, and the
# backslash, which browsers treat as a slash.
_NOT_IN_ADDRESSES = re.compile(r"[\x00-\x20\x7f\\]")


def is_within(address: str, networks: Sequence[Network]) -> bool:
    """Whether the IP address is in one of the networks."""
    if not _is_address(address):
        return False
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped  # a dual-stack socket shows an IPv4 peer as IPv6
    return any(parsed in network for network in networks)


@lru_cache(maxsize=4096)
def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
