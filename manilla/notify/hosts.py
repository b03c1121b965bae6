"""Limits concurrent calls per host, so that a slow or dead host does not block the others."""

import time
from urllib.parse import urlsplit

import msgspec

AT_ONCE = 64  # calls to one host: a third of all concurrent calls
NEW_AT_ONCE = 8  # calls of a merchant to a host that has not answered it yet and may be dead
SLOW_AT_ONCE = 2  # calls of a merchant to a host that has been slow or silent for this merchant
SLOW_IN_ALL = 48  # calls to all slow hosts together
SLOW_SECONDS = 2.0
REMEMBER_SECONDS = 60.0
WAYS_MAX = 50_000


class _Way(msgspec.Struct):
    """Calls of one merchant to one host.

    Slowness is recorded for the merchant, because the host may be fast for other merchants.
    """

    calls: int = 0
    slow_until: float = 0.0
    is_quick: bool = False  # the last response was fast

    @property
    def is_slow(self) -> bool:
        return time.monotonic() < self.slow_until


class Hosts:
    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._ways: dict[tuple[int, str], _Way] = {}
        self._slow_calls = 0

    def enter(self, name: str, merchant_id: int) -> tuple[bool, bool]:
        """Returns whether the host can be called now, and whether it counts as slow."""
        way = self._ways.get((merchant_id, name))
        if way is None:
            self._forget_idle()
            way = self._ways[merchant_id, name] = _Way()
        is_slow = way.is_slow
        if is_slow and (way.calls >= SLOW_AT_ONCE or self._slow_calls >= SLOW_IN_ALL):
            return False, True
        calls = self._calls.get(name, 0)
        if calls >= AT_ONCE or (way.calls >= NEW_AT_ONCE and not way.is_quick):
            return False, is_slow
        self._slow_calls += is_slow
        self._calls[name] = calls + 1
        way.calls += 1
        return True, is_slow

    def leave(self, name: str, merchant_id: int, *, was_slow: bool, seconds: float) -> None:
        way = self._ways[merchant_id, name]
        way.calls -= 1
        self._slow_calls -= was_slow
        self._calls[name] -= 1
        if not self._calls[name]:
            del self._calls[name]
        way.is_quick = seconds <= SLOW_SECONDS
        way.slow_until = 0.0 if way.is_quick else time.monotonic() + REMEMBER_SECONDS

    def _forget_idle(self) -> None:
        if len(self._ways) >= WAYS_MAX:
            self._ways = {key: way for key, way in self._ways.items() if way.calls}


def host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or parts.scheme}"
