"""Limits how many connections one address can have open to this process."""

from collections import Counter
from collections.abc import Sequence

import structlog

from manilla.kit import http
from manilla.kit.http import Network
from manilla.kit.ratelimit import address_bucket

log = structlog.get_logger(__name__)

CONNECTIONS_MAX = 1000


class ClientConnections:
    """The number of open connections of each address, except the addresses of trusted proxies.

    A trusted proxy's connections carry the requests of all its clients, so the proxy limits them.
    """

    def __init__(self, trusted_proxies: Sequence[Network] = ()) -> None:
        self._trusted_proxies = trusted_proxies
        self._open: Counter[str] = Counter()
        self._limited = set[str]()  # addresses whose limit has been logged

    def admit(self, address: str) -> bool:
        """Counts a new connection, unless its address already has as many as it may have."""
        bucket = self._bucket(address)
        if bucket is None:
            return True
        if self._open[bucket] >= CONNECTIONS_MAX:
            if bucket not in self._limited:
                self._limited.add(bucket)
                log.warning("connections_limited", address=bucket)
            return False
        self._open[bucket] += 1
        return True

    def release(self, address: str) -> None:
        bucket = self._bucket(address)
        if bucket is not None:
            self._open[bucket] -= 1
            if not self._open[bucket]:
                del self._open[bucket]
                self._limited.discard(bucket)

    def _bucket(self, address: str) -> str | None:
        return None if http.is_within(address, self._trusted_proxies) else address_bucket(address)
