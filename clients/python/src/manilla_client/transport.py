"""An HTTP client that reuses connections and needs only the standard library."""

import http.client
import ssl
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

ANSWER_BYTES_MAX = 8 * 1024 * 1024
CONNECTIONS_KEPT_MAX = 16
# Connections are closed after this idle time, before servers usually close them.
IDLE_SECONDS_MAX = 4
TIMEOUT_SECONDS_LIMIT = 86_400


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]  # header names in lower case
    body: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """The request got no response. If `is_final` is True, a retry would not help."""

    reason: str
    is_final: bool = False
    was_closed: bool = False


class Transport:
    """A thread-safe HTTP transport. Each thread uses a separate connection."""

    def __init__(self, url: str, timeout_seconds: float, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("The URL must start with https:// or http://, followed by a host.")
        if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
            # The signature covers the path that the API receives, so no path prefix is allowed.
            raise ValueError("The URL must have only a host, without a path.")
        if not 0 < timeout_seconds <= TIMEOUT_SECONDS_LIMIT:
            raise ValueError(f"timeout_seconds must be above 0, up to {TIMEOUT_SECONDS_LIMIT}.")
        self._host, self._port = parts.hostname, parts.port
        self._timeout_seconds = timeout_seconds
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._idle: deque[tuple[float, http.client.HTTPConnection]] = deque()

    def send(self, request: Request) -> Answer | Failure:
        """Sends a request. If a reused connection was closed, retries once on a new connection."""
        kept = self._take()
        if kept is not None:
            outcome = self._exchange(kept, request)
            if isinstance(outcome, Answer) or not outcome.was_closed:
                return outcome
        return self._exchange(self._connection(), request)

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port, timeout = self._host, self._port, self._timeout_seconds
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)

    def _take(self) -> http.client.HTTPConnection | None:
        while True:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                return None
            if time.monotonic() - since < IDLE_SECONDS_MAX:
                return connection
            connection.close()

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        if connection.sock is None or len(self._idle) >= CONNECTIONS_KEPT_MAX:
            connection.close()
        else:
            self._idle.append((time.monotonic(), connection))

    def _exchange(
        self, connection: http.client.HTTPConnection, request: Request
    ) -> Answer | Failure:
        try:
            connection.request(
                request.method, request.target, body=request.body or None, headers=request.headers
            )
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX + 1)
        except ssl.SSLCertVerificationError as error:
            connection.close()
            return Failure(f"The certificate cannot be verified: {error}", is_final=True)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            reason = f"No response: {type(error).__name__}: {error}"
            return Failure(reason, was_closed=isinstance(error, ConnectionError))
        if len(body) > ANSWER_BYTES_MAX:
            connection.close()
            return Failure("The response is too large.", is_final=True)
        if response.length:
            connection.close()
            return Failure("No response: only a part of it arrived.")
        self._keep(connection)
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body)
