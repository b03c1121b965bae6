"""HTTP at its edge: limits on a request's head, its exact target, its sender, its body."""

import asyncio
import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from manilla.kit import ids, strict_json

HEAD_BYTES_MAX = 32 * 1024
HEAD_SECONDS_MAX = 15
BODY_SECONDS_MAX = 10
_TARGET = "manilla.target"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with a limit on the head and errors in the format of all others."""

    _head_bytes = 0
    _in_head = True
    _deadline: asyncio.TimerHandle | None = None  # of what the client must send next
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
        """Whatever the route: a program that waits for the body sees that the client is gone."""
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
        """An offer to speak another protocol is ignored, as RFC 9110 (7.8) has it."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                # The parser takes what follows for the other protocol, a body included. It is
                # given the head again, without the offer.
                data = self._head_without_offer() + data[offer.args[0] :]

    def _head_without_offer(self) -> bytes:
        method, version = self.parser.get_method(), self.parser.get_http_version()
        if method == b"CONNECT":  # always an offer, and nothing that we do
            raise httptools.HttpParserError
        lines = [b"%b %b HTTP/%b" % (method, self.url, version.encode())]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def on_message_begin(self) -> None:
        self._in_head = True
        self._await_within(HEAD_SECONDS_MAX, self.transport.abort)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """What follows a body is no header: it would speak after those that a proxy has put."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._await_within(BODY_SECONDS_MAX, self._end_slow_body)
        if len(self.url) + sum(len(n) + len(v) for n, v in self.headers) > HEAD_BYTES_MAX:
            # The parser passes it on to data_received as an error of the request.
            raise ValueError
        if self._has_wrong_host():
            self._problem = "A request must have exactly one Host header."
            raise ValueError
        if self.parser.should_upgrade():
            return
        super().on_headers_complete()
        # As it was sent: a signature covers these bytes, down to a lone question mark.
        self.scope["state"][_TARGET] = self.url

    def _has_wrong_host(self) -> bool:
        """RFC 9112 (3.2); HTTP/1.0 knows requests without a host, such as health checks."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        return hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1")

    def on_message_complete(self) -> None:
        self._stop_awaiting()
        if self.parser.should_upgrade():
            return
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._owes_an_answer():
            # Its caller would take this for the answer, and the payout for refused.
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
        """Whether a request that came whole, before what is wrong, is still being worked on."""
        cycle = self.cycle
        is_whole = cycle is not None and not cycle.more_body and not cycle.response_complete
        return is_whole or bool(self.pipeline)


class BodyTooLarge(Exception):
    pass


class ClientGone(Exception):
    """Nobody is left to answer."""


def target(scope: dict[str, Any]) -> bytes:
    """The path and query exactly as they stand in the request line."""
    sent: bytes = scope.get("state", {}).get(_TARGET, b"")
    if sent.startswith(b"/"):
        return sent
    path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return path + b"?" + query if query else path


async def read_body(receive: Any, size_max: int) -> bytes:
    """The whole body, refused while it is being read once it is too large.

    The protocol ends a connection whose body is too slow.
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
    """The nearest address that is not a proxy of ours. Who is no proxy cannot speak for others."""
    if not trusted_proxies or forwarded_for is None or not _is_in(peer, trusted_proxies):
        return peer
    nearest = peer
    for hop in reversed(forwarded_for.decode("latin-1").split(",")):
        address = hop.strip()
        if not _is_address(address):
            return nearest
        nearest = address
        if not _is_in(address, trusted_proxies):
            return nearest
    return nearest


@lru_cache(maxsize=4096)  # shops send the same ones with every order
def is_web_address(text: str) -> bool:
    """http or https, with a host: nothing that a browser would run or read from elsewhere."""
    if _NOT_IN_ADDRESSES.search(text):
        return False
    try:
        parts = urlsplit(text)
        # A port that is none raises; so do brackets that do not hold an address.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


# Spaces and controls, which Python drops and browsers read their own way; and the backslash, which
# browsers take for a slash.
_NOT_IN_ADDRESSES = re.compile(r"[\x00-\x20\x7f\\]")


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    if not _is_address(address):
        return False
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped  # how a dual-stack socket shows an IPv4 peer
    return any(parsed in network for network in networks)


@lru_cache(maxsize=4096)
def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
