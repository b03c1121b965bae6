"""HTTP functions that all applications share: responses, bodies, client addresses and URLs."""

import ipaddress
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class BodyTooLarge(Exception):
    pass


class ClientGone(Exception):
    """The client disconnected, so no response can be sent."""


JSON = b"application/json"
FORWARDED_FOR = b"x-forwarded-for"
Header = tuple[bytes, bytes]
# Headers of every JSON response of the API, and of the response to a request that is not valid HTTP
JSON_HEADERS = (
    (b"content-type", JSON),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


async def respond(
    send: Any, status: int, body: bytes, headers: Iterable[Header] = (), media_type: bytes = JSON
) -> None:
    length = str(len(body)).encode()
    every = [(b"content-type", media_type), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": every})
    await send({"type": "http.response.body", "body": body})


async def body_chunks(receive: Any, size_max: int) -> AsyncIterator[bytes]:
    """Yields the body as it arrives, and raises BodyTooLarge as soon as it exceeds the size limit.

    The server's protocol class closes connections that send the body too slowly.
    """
    size, is_complete = 0, False
    while not is_complete:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        size += len(message["body"])
        if size > size_max:
            raise BodyTooLarge
        yield message["body"]
        is_complete = not message.get("more_body")


def client_address(peer: str, headers: Iterable[Header], trusted_proxies: Sequence[Network]) -> str:
    """Returns the client's address: the last address in the proxy chain that is not a trusted
    proxy.

    X-Forwarded-For is ignored unless the peer is a trusted proxy. If the header is repeated, its
    lines are one list: HAProxy adds a line after those that the client has sent.
    """
    if not trusted_proxies or not is_within(peer, trusted_proxies):
        return peer
    lines = [value.decode("latin-1") for name, value in headers if name == FORWARDED_FOR]
    nearest = peer
    for hop in reversed(",".join(lines).split(",")):
        address = hop.strip()
        if not _is_address(address):
            return nearest
        nearest = address
        if not is_within(address, trusted_proxies):
            return nearest
    return nearest


@lru_cache(maxsize=4096)  # cached, because merchants send the same URLs with every order
def is_web_address(text: str) -> bool:
    """Returns True if the text is an http or https URL with a host.

    Other schemes, such as javascript: and file:, are rejected because a browser could run or open
    such a URL.
    """
    if _NOT_IN_ADDRESSES.search(text):
        return False
    try:
        parts = urlsplit(text)
        # `port` raises ValueError for an invalid port, and `urlsplit` for an invalid IPv6 address.
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


# Python drops whitespace and control characters, and browsers treat a backslash as a slash.
_NOT_IN_ADDRESSES = re.compile(r"[\x00-\x20\x7f\\]")


def is_within(address: str, networks: Sequence[Network]) -> bool:
    if not _is_address(address):
        return False
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        # A dual-stack socket represents an IPv4 peer as an IPv6 address.
        parsed = parsed.ipv4_mapped
    return any(parsed in network for network in networks)


@lru_cache(maxsize=4096)
def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
