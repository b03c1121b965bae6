"""A request for a page, parsed from an ASGI scope."""

from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from manilla.kit import http
from manilla.kit.http import Network

BODY_BYTES_MAX = 64 * 1024

Pairs = list[tuple[str, str]]


class WebRequest:
    def __init__(self, scope: Any, receive: Any) -> None:
        self._scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.path = normalize(scope["path"])
        client = scope.get("client")
        self.peer: str = client[0] if client else ""  # the client's IP address, or an empty string
        # The router sets the following attributes when it has found the request's handler.
        self.parameters: dict[str, str | int] = {}
        self.body_bytes_max = BODY_BYTES_MAX

    @cached_property
    def headers(self) -> dict[str, str]:
        """Maps lower-case header names to values. Only the first value of each header is kept."""
        given = reversed(self._scope["headers"])
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in given}

    def address(self, trusted_proxies: Sequence[Network]) -> str:
        """Returns the browser's IP address. Uses X-Forwarded-For only from trusted proxies."""
        return http.client_address(self.peer, self._scope["headers"], trusted_proxies)

    @cached_property
    def cookies(self) -> dict[str, str]:
        return parse_cookies(self.headers.get("cookie", ""))

    @property
    def query_string(self) -> str:
        text: str = self._scope["query_string"].decode(errors="replace")
        return text

    @cached_property
    def query_pairs(self) -> Pairs:
        return parse_pairs(self._scope["query_string"])

    @cached_property
    def query(self) -> dict[str, str]:
        """Maps query parameter names to values. Only the first value of each parameter is kept."""
        return dict(reversed(self.query_pairs))

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yields the request body in chunks. Raises `BodyTooLarge` above the maximum size."""
        if int(self.headers.get("content-length", "0")) > self.body_bytes_max:
            raise http.BodyTooLarge
        async for chunk in http.body_chunks(self._receive, self.body_bytes_max):
            yield chunk

    async def body(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])


def normalize(path: str) -> str:
    """Removes empty segments from a path: `/docs/` and `//docs` become `/docs`."""
    if "//" not in path and (path == "/" or not path.endswith("/")) and path.startswith("/"):
        return path
    return "/" + "/".join(segment for segment in path.split("/") if segment)


def parse_pairs(encoded: bytes) -> Pairs:
    """Parses a query string or the body of a form without files."""
    return parse_qsl(encoded.decode("latin-1"), keep_blank_values=True)


def parse_cookies(header: str) -> dict[str, str]:
    """Parses the Cookie header. A malformed cookie does not affect the other cookies.

    Quotation marks are removed, because Python puts them around values with an equals sign.
    """
    found = (each.partition("=") for each in header.split(";"))
    return {name.strip(): value.strip().strip('"') for name, equals, value in found if equals}
