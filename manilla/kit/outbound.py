"""Calls to addresses that other people choose: never into our own network.

The address is checked where the socket is made, after every resolution of its name. So it does not
matter how it was written, what the name meant a moment ago, or what it will mean next.
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

# Global by the registries, but ways around the check: they carry an IPv4 address within.
_WRAPPED = tuple(
    ipaddress.IPv6Network(network)
    for network in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::ffff:0:0/96")
)
# Not public, whatever this version of Python has heard of them.
_SPECIAL = tuple(
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "fec0::/10", "3fff::/20")
)


# Said of both alike: what a name means inside our network, and whether it means anything there, is
# nothing to tell whoever chose it.
NOT_REACHED = "not a public address, or a name that is not known"


class AddressRefused(OSError):
    """Not an address of the public internet."""


def is_public(text: str) -> bool:
    """Globally routable, and not a wrapper around something that may not be."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in (*_WRAPPED, *_SPECIAL)):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


@lru_cache(maxsize=4096)  # shops send the same ones with every order
def has_private_host(url: str) -> bool:
    """Whether a URL's host is written as an address that is not public, or as `localhost`.

    Names are not resolved here: what they mean is checked when a socket is opened.
    """
    host = unquote(urlsplit(url).hostname or "")
    name = unicodedata.normalize("NFKC", host).replace("\u3002", ".").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _written_address(name)
    return address is not None and not is_public(address)


def _written_address(host: str) -> str | None:
    """What a resolver reads in it, also in odd spellings: 127.1, 0x7f000001, 017700000001."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host.partition("%")[0]))
    with contextlib.suppress(OSError, ValueError):
        return socket.inet_ntoa(socket.inet_aton(host))
    return None


class Resolver(AbstractResolver):
    """Resolves names that other people choose in threads of its own.

    The system's resolver holds a thread for as long as a name server does not answer, longer than
    any call waits. In the threads that everybody shares, a few such names would keep the process
    from resolving its own database and providers.
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
    """No redirects are followed by who uses it, no cookies kept, no proxy of the environment."""

    def make_socket(address_info: Any) -> socket.socket:
        family, kind, protocol, _, address = address_info
        if is_public_only and not is_public(address[0]):
            raise AddressRefused(errno.EACCES, NOT_REACHED)
        return socket.socket(family, kind, protocol)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=connections,
            resolver=Resolver(connections),
            use_dns_cache=not is_public_only,
            keepalive_timeout=15,
            socket_factory=make_socket,
        ),
        timeout=aiohttp.ClientTimeout(total=seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        # Nothing is unpacked, and an answer is shown to people: it must come as it is.
        headers={"User-Agent": "Manilla", "Accept-Encoding": "identity"},
    )


def told(error: Exception) -> str:
    """What became of a call, in words for people: not in the library's, and in one line."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            text = f"the certificate is not accepted: {error.certificate_error}"
        case aiohttp.ClientConnectorDNSError():
            text = NOT_REACHED
        case aiohttp.ClientConnectorError():
            text = _system_told(error.os_error)
        case aiohttp.ServerDisconnectedError():
            text = "the connection was closed without an answer"
        case aiohttp.ClientPayloadError():
            text = "the answer broke off before its end"
        case aiohttp.ClientResponseError():
            text = "the answer is not HTTP"
        case aiohttp.ClientOSError():
            text = _system_told(error)
        case _:
            text = str(error) or type(error).__name__
    return "".join(character if character.isprintable() else " " for character in text)[:200]


def _system_told(error: OSError) -> str:
    number = error.errno
    # Our own refusal, a name's resolution and TLS have texts that say more than a number does.
    if number is None or number <= 0 or number == errno.EACCES or isinstance(error, ssl.SSLError):
        return error.strerror or str(error)
    return os.strerror(number)
