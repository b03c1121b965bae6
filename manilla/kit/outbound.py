"""Makes HTTP calls to URLs that merchants choose. These calls must never reach our own network.

The IP address is checked when the socket is created, after DNS resolution. So neither an unusual
notation of the address nor a changed DNS record can bypass the check.
"""

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import ssl
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

# These networks count as global, but their addresses can embed a private IPv4 address.
_WRAPPED = tuple(
    ipaddress.IPv6Network(network)
    for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::ffff:0:0/96")
)
# These networks are not public, although some versions of Python consider them global.
_SPECIAL = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20")
)


# The same message for both cases, so that a caller cannot learn which names exist in our network.
NOT_REACHED = "not a public address, or a name that is not known"


class AddressRefused(OSError):
    """The IP address is not on the public internet."""


def is_public(text: str) -> bool:
    """Whether the address is globally routable and does not embed another address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in (*_WRAPPED, *_SPECIAL)):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


@lru_cache(maxsize=4096)  # cached, because merchants send the same URLs with every order
def has_private_host(url: str) -> bool:
    """Whether a URL's host is `localhost` or an IP address that is not public.

    Host names are not resolved here. Their IP addresses are checked when a socket is opened.
    """
    host = unquote(urlsplit(url).hostname or "")
    name = unicodedata.normalize("NFKC", host).replace("\u3002", ".").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _written_address(name)
    return address is not None and not is_public(address)


def _written_address(host: str) -> str | None:
    """Parses an IP address as a resolver does, including 127.1, 0x7f000001 and 017700000001."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host.partition("%")[0]))
    with contextlib.suppress(OSError, ValueError):
        return socket.inet_ntoa(socket.inet_aton(host))
    return None


class ThreadedResolver(AbstractResolver):
    """Resolves host names in separate threads.

    If a name server does not respond, the system's resolver blocks a thread for longer than the
    timeout of any HTTP call. In the shared thread pool, a few such names would prevent the process
    from resolving the names of its own database and providers.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="resolve")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, family=family)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, partial(ask, flags=socket.AI_ADDRCONFIG))
        flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=flags,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def open_session(*, is_public_only: bool, connections: int, seconds: float) -> Any:
    """Opens an HTTP session without cookies that ignores the proxy variables of the environment.

    Callers must not follow redirects.
    """

    def make_socket(address_info: Any) -> socket.socket:
        family, kind, protocol, _, address = address_info
        if is_public_only and not is_public(address[0]):
            raise AddressRefused(errno.EACCES, NOT_REACHED)
        return socket.socket(family, kind, protocol)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections,
            resolver=ThreadedResolver(connections),
            use_dns_cache=not is_public_only,
            keepalive_timeout=15,
            socket_factory=make_socket,
        ),
        timeout=aiohttp.ClientTimeout(total=seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        # Request uncompressed responses, because users see the responses exactly as received.
        headers={"User-Agent": "Manilla", "Accept-Encoding": "identity"},
    )


def is_not_reached(error: Exception) -> bool:
    """Whether the call failed because the address is not public or the host is unknown."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(error, aiohttp.ClientConnectorDNSError) or isinstance(cause, AddressRefused)


def describe(error: Exception) -> str:
    """Describes a failed call in one line, in plain words instead of the library's error text."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            text = f"the TLS certificate was rejected: {error.certificate_error}"
        case aiohttp.ClientConnectorDNSError():
            text = NOT_REACHED
        case aiohttp.ClientConnectorError():
            text = _system_reason(error.os_error)
        case aiohttp.ConnectionTimeoutError():
            text = "the host did not accept the connection in time"
        case aiohttp.ServerDisconnectedError():
            text = "the connection was closed without a response"
        case aiohttp.ClientPayloadError():
            text = "the response was incomplete"
        case aiohttp.ClientResponseError():
            text = "the response is not valid HTTP"
        case aiohttp.ClientOSError():
            text = _system_reason(error)
        case _:
            text = str(error) or type(error).__name__
    return "".join(character if character.isprintable() else " " for character in text)[:200]


def _system_reason(error: OSError) -> str:
    number = error.errno
    # For rejected addresses, DNS and TLS, the error's text is more specific than its number.
    if number is None or number <= 0 or number == errno.EACCES or isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return os.strerror(number)
