"""Opens connections: resolves the host name, checks the IP address, and starts TLS."""

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import zip_longest
from typing import Any

from manilla.kit import outbound
from manilla.kit.http_client.connection import HttpConnection
from manilla.kit.http_client.errors import (
    AddressRefused,
    CertificateRejected,
    ConnectTimeout,
    InvalidUrl,
    NotConnected,
    UnknownHost,
)
from manilla.kit.http_client.urls import Origin

NEXT_ADDRESS_SECONDS = 0.25
NAME_CACHE_SECONDS = 10
NAMES_CACHED_MAX = 1000

Address = tuple[int, Any]  # the address family, and the socket address for that family


class ThreadedResolver:
    """Resolves host names in a separate thread pool.

    If a name server does not respond, the system's resolver blocks a thread for longer than any
    call waits. In the shared thread pool, a few such names would prevent the process from resolving
    the names of its own database and providers.
    """

    def __init__(self, threads: int, *, is_cached: bool) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="resolve")
        self._is_cached = is_cached
        self._lookups: dict[tuple[str, int], tuple[float, asyncio.Task[list[Address]]]] = {}

    async def resolve(self, host: str, port: int) -> list[Address]:
        if not self._is_cached:
            return await self._look_up(host, port)
        now = asyncio.get_running_loop().time()
        ends_at, lookup = self._lookups.get((host, port), (0.0, None))
        if lookup is None or ends_at <= now:
            if len(self._lookups) >= NAMES_CACHED_MAX:
                self._lookups.clear()
            lookup = asyncio.create_task(self._look_up(host, port))
            lookup.add_done_callback(partial(self._drop_failure, (host, port)))
            self._lookups[host, port] = now + NAME_CACHE_SECONDS, lookup
        # The lookup continues if this call is canceled, because other callers may wait for it.
        return await asyncio.shield(lookup)

    def _drop_failure(self, key: tuple[str, int], lookup: "asyncio.Task[list[Address]]") -> None:
        if lookup.cancelled() or lookup.exception() is not None:
            self._lookups.pop(key, None)

    async def _look_up(self, host: str, port: int) -> list[Address]:
        ask = partial(
            socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [(family, address) for family, _, _, _, address in found]

    def close(self) -> None:
        for _, lookup in self._lookups.values():
            lookup.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


@cache
def tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class HttpConnector:
    def __init__(
        self, connections: int, connect_seconds: float | None, *, is_public_only: bool
    ) -> None:
        self._connect_seconds = connect_seconds
        self._is_public_only = is_public_only
        # Merchants' host names are resolved for each connection.
        self._resolver = ThreadedResolver(connections, is_cached=not is_public_only)

    def close(self) -> None:
        self._resolver.close()

    async def connect(self, origin: Origin) -> HttpConnection:
        """Connects to the origin. Raises NotConnected if that fails."""
        host = origin.host
        addresses = await self._addresses(origin)
        try:
            async with asyncio.timeout(self._connect_seconds) as limit:
                return await self._connect(origin, addresses)
        except ssl.CertificateError as error:
            raise CertificateRejected(host, error) from error
        except OSError as error:
            kind = ConnectTimeout if limit.expired() else NotConnected
            raise kind(host, error) from error

    async def _addresses(self, origin: Origin) -> list[Address]:
        host, port = origin.host, origin.port
        if ":" in host:
            return [(socket.AF_INET6, (host, port, 0, 0))]
        if host.replace(".", "").isdigit():
            # Reject notations such as 127.1 and 2130706433, which hide the actual IP address.
            if not _is_dotted_quad(host):
                raise InvalidUrl(f"{host} - is not a canonical IPv4 address")
            return [(socket.AF_INET, (host, port))]
        name = f"{host.rstrip('.')}." if host.endswith("..") else host
        try:
            return _alternate(await self._resolver.resolve(name, port))
        except OSError as error:
            raise UnknownHost(host, error) from error

    async def _connect(self, origin: Origin, addresses: list[Address]) -> HttpConnection:
        loop = asyncio.get_running_loop()
        while True:
            opened, address = await self._open_first(origin, addresses)
            try:
                _, connection = await loop.create_connection(
                    partial(HttpConnection, origin),
                    sock=opened,
                    ssl=tls_context() if origin.is_tls else None,
                    server_hostname=origin.host.rstrip(".") if origin.is_tls else None,
                )
            except OSError:
                addresses = [each for each in addresses if each != address]
                if not addresses:
                    raise
            else:
                return connection

    async def _open_first(
        self, origin: Origin, addresses: Sequence[Address]
    ) -> tuple[socket.socket, Address]:
        """Connects to the first address that accepts a connection.

        Tries the next address when an attempt has failed or has taken NEXT_ADDRESS_SECONDS.
        """
        if len(addresses) == 1:
            return await self._open(origin, addresses[0])
        waiting = list(reversed(addresses))
        attempts: list[asyncio.Task[tuple[socket.socket, Address]]] = []
        chosen = None
        try:
            while True:
                if waiting:
                    attempts.append(asyncio.create_task(self._open(origin, waiting.pop())))
                await asyncio.wait(
                    [each for each in attempts if not each.done()],
                    timeout=NEXT_ADDRESS_SECONDS if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                done = [each for each in attempts if each.done()]
                chosen = next((each for each in done if each.exception() is None), None)
                if chosen is not None or (len(done) == len(addresses)):
                    return (chosen or done[-1]).result()
        finally:
            for each in attempts:
                if each is not chosen:
                    each.cancel()
                    each.add_done_callback(_close_socket)

    async def _open(self, origin: Origin, address: Address) -> tuple[socket.socket, Address]:
        family, where = address
        # Check the IP address after name resolution, just before the connection is opened.
        # A different notation of the URL or a changed DNS record therefore cannot bypass the check.
        if self._is_public_only and not outbound.is_public(where[0]):
            raise AddressRefused(origin.host, OSError(errno.EACCES, outbound.NOT_REACHED))
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            opened.setblocking(False)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().sock_connect(opened, where)
        except BaseException:
            opened.close()
            raise
        return opened, address


def _close_socket(attempt: "asyncio.Task[tuple[socket.socket, Address]]") -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result()[0].close()


def _is_dotted_quad(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _alternate(addresses: Sequence[Address]) -> list[Address]:
    """Orders the addresses so that IPv6 and IPv4 alternate."""
    families = defaultdict(list)
    for each in addresses:
        families[each[0]].append(each)
    pairs = zip_longest(*families.values())
    return [each for pair in pairs for each in pair if each is not None]
