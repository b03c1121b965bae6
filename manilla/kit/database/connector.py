"""Opens database sessions for a URL that may name several hosts.

asyncpg tries the hosts one after another with one timeout for all hosts. If one host accepts
connections but never responds, asyncpg would not try the remaining hosts.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode
from weakref import WeakSet

import asyncpg
import msgspec

from manilla.kit import time_limits

# These TCP settings detect an unresponsive host within about 20 s.
# A host that fails without closing its connections is detected even during a long SQL statement.
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000),
)

# Every session requests this search path when it starts, so a setting of the role or the database
# has no effect on it. PostgreSQL searches `pg_catalog` first. Without `pg_temp` at the end, a
# temporary table would hide a table with the same name.
SEARCH_PATH = "public, pg_temp"

# These errors mean that the server is unreachable, full or stopping. A later attempt may succeed.
PASSING = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InternalClientError,
)


class Session(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A session that is closed immediately if its server hangs, and that never cancels a commit.

    The pool closes an expired session when the session is released, or before it opens another
    session. asyncpg's `close` would make the caller wait for the server.

    After a timeout, asyncpg requests that the server cancel the statement. A canceled commit that
    waits for a synchronous standby would take effect without the standby.
    """

    is_lost = False
    is_committing = False

    def _cancel_current_command(self, waiter: Any, cancel_waiter: Any = None) -> None:
        if not self.is_committing:
            super()._cancel_current_command(waiter, cancel_waiter)
        elif not waiter.done():
            waiter.set_result(None)

    def set_committing(self, is_committing: bool) -> None:
        self.is_committing = is_committing

    async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if self.is_lost:
            self.terminate()
        else:
            await super().close(timeout=timeout)


class SearchPathReplaced(ValueError):
    """A login event trigger, or a connection pooler, has replaced the session's search path."""


class Host(msgspec.Struct, frozen=True):
    name: str  # the host's name for logs, without user and password
    url: str  # a database URL that names only this host


class NoUsableHost(ConnectionError):
    """No host accepted a connection. The message contains the reason for each host."""


class Connector:
    """Opens sessions on the host that accepts writes, or on a host with another role.

    The host of the last session is tried first. If that host fails, all other hosts are tried at
    the same time. Hosts that hang therefore delay a session by at most 2 s, regardless of their
    number and order.
    """

    def __init__(
        self, url: str, *, only_host_seconds: float | None = None, target: str | None = None
    ) -> None:
        """`target`: the hosts' role (asyncpg's `target_session_attrs`), unless the URL has one."""
        url, self._options = _read_certificates(url)
        self._hosts = hosts_of(url)
        self._only_host_seconds = only_host_seconds
        if target is None and len(self._hosts) > 1:
            target = "read-write"
        if target is not None and "target_session_attrs" not in _query(url):
            self._options["target_session_attrs"] = target
        self._last: Host | None = None
        self._sessions: WeakSet[Session] = WeakSet()

    def lose_sessions(self) -> None:
        """Marks all current sessions as lost, so that closing them does not wait for the server."""
        for session in self._sessions:
            session.is_lost = True

    @property
    def host(self) -> str:
        """The host of the last session, or all hosts if no session has been opened yet."""
        return self._last.name if self._last else ",".join(host.name for host in self._hosts)

    async def connect(self, *_url: str, **options: Any) -> Any:
        """Connects to the configured hosts. The URL that the pool passes is ignored."""
        session = await self._connect(**options)
        self._sessions.add(session)
        return session

    async def _connect(self, **options: Any) -> Session:
        settings = {**options.pop("server_settings", {}), "search_path": SEARCH_PATH}
        options = {
            **options,
            **self._options,
            "server_settings": settings,
            "timeout": self._host_seconds(),
        }
        failed: dict[Host, Exception] = {}
        rest = self._hosts
        if (last := self._last) is not None:
            try:
                return await _open(last, options)
            except Exception as error:
                failed[last] = error
                rest = [host for host in self._hosts if host != last]
        self._last = None  # if this attempt fails too, the next call tries all hosts in parallel
        self._last, session = await _first(rest, options, failed)
        return session

    def _host_seconds(self) -> float:
        limits = time_limits.current
        if len(self._hosts) > 1:
            return limits.host_connect_seconds
        if self._only_host_seconds is not None:
            return self._only_host_seconds
        return limits.only_host_connect_seconds


async def _first(
    hosts: list[Host], options: dict[str, Any], failed: dict[Host, Exception]
) -> tuple[Host, Session]:
    """Returns the first session that opens, and cancels the other attempts."""
    attempts = {asyncio.create_task(_open(host, options)): host for host in hosts}
    try:
        while attempts:
            done, _ = await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                error = attempt.exception()
                if error is None:
                    return attempts.pop(attempt), attempt.result()
                assert isinstance(error, Exception)
                failed[attempts.pop(attempt)] = error
    finally:
        for attempt in attempts:
            attempt.cancel()
            attempt.add_done_callback(_close_unwanted)
    raise _clearest_error(failed)


def _close_unwanted(attempt: "asyncio.Task[Any]") -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()


def _clearest_error(failed: dict[Host, Exception]) -> Exception:
    """Returns the most helpful error, preferably a permanent error such as a wrong password."""
    for error in failed.values():
        if not isinstance(error, PASSING):
            return error
    reasons = (f"{host.name}: {_reason(error)}" for host, error in failed.items())
    return NoUsableHost("; ".join(reasons))


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "is not a standby" if "standby" in str(error) else "does not accept writes"
    return str(error) or type(error).__name__


async def _open(host: Host, options: dict[str, Any]) -> Session:
    session: Session = await asyncpg.connect(host.url, **{**options, "connection_class": Session})
    _check_search_path(session)
    transport = session._transport
    if (opened := transport.get_extra_info("socket")) is not None:
        with contextlib.suppress(OSError):  # a UNIX socket does not support these options
            for option in _KEEPALIVE:
                opened.setsockopt(*option)
    return session


def _check_search_path(session: Session) -> None:
    """Raises SearchPathReplaced if the server reports another search path than the requested one.

    PostgreSQL 18 reports it with the response to the startup packet, and after login triggers.
    """
    found = getattr(session.get_settings(), "search_path", SEARCH_PATH)
    if found != SEARCH_PATH:
        session.terminate()
        raise SearchPathReplaced(f"the session has the search_path {found} instead of ours")


def _read_certificates(url: str) -> tuple[str, dict[str, Any]]:
    """Replaces `sslrootcert=system`, which asyncpg does not support, in the URL and options."""
    query = _query(url)
    file = query.get("sslrootcert")
    if file is None:
        return url, {}
    if file != "system":
        if not os.access(file, os.R_OK):
            raise ValueError(f"cannot read the sslrootcert file {file}")
        return url, {}
    if query.get("sslmode") != "verify-full":
        raise ValueError("sslrootcert=system needs sslmode=verify-full")
    del query["sslrootcert"], query["sslmode"]
    # With `True`, asyncpg uses the system's certificates and verifies the host name.
    return _split(url).url(query=query), {"ssl": True}


def _query(url: str) -> dict[str, str]:
    return dict(parse_qsl(_split(url).query))


class _Parts(msgspec.Struct, frozen=True):
    """The parts of a database URL. urllib rejects host lists with a bracketed IPv6 address."""

    start: str  # everything before the hosts, including user and password
    hosts: str
    path: str
    query: str

    def url(self, *, hosts: str | None = None, query: Mapping[str, str] | None = None) -> str:
        text = self.query if query is None else urlencode(query)
        where = self.hosts if hosts is None else hosts
        return f"{self.start}{where}{self.path}" + (f"?{text}" if text else "")


def _split(url: str) -> _Parts:
    rest, _, query = url.partition("?")
    scheme, mark, rest = rest.partition("://")
    authority, slash, path = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    return _Parts(f"{scheme}{mark}{user}{at}", hosts, slash + path, query)


def hosts_of(url: str) -> list[Host]:
    """Returns the URL's hosts, each with a URL that names only that host."""
    parts = _split(url)
    if parts.hosts:
        return [Host(name, parts.url(hosts=name)) for name in parts.hosts.split(",")]
    query = _query(url)
    names = query.get("host", "").split(",")
    ports = query.get("port", "").split(",")
    if len(names) == 1:
        return [Host(names[0] or "the default host", url)]
    if len(ports) == 1:
        ports *= len(names)
    hosts = []
    for name, port in zip(names, ports, strict=True):
        alone = {**query, "host": name, **({"port": port} if port else {})}
        hosts.append(Host(f"{name}:{port}" if port else name, parts.url(query=alone)))
    return hosts
