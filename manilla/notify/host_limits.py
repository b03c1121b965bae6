"""Limits concurrent calls per host, so that a slow or dead host does not block other hosts."""

import asyncio
import contextlib
import time
from collections import deque
from functools import lru_cache
from urllib.parse import urlsplit

import msgspec

from manilla.kit import time_limits

AT_ONCE = 64  # limit per host, a third of all concurrent calls
NEW_AT_ONCE = 8  # limit per merchant and host, until the host has responded quickly
SLOW_AT_ONCE = 2  # limit per merchant and host, while the host is slow or does not respond
SLOW_IN_ALL = 48  # limit for all slow hosts together
# Maximum number of messages waiting here for a fast host. Other messages are scheduled again.
WAITING_MAX = 32
SLOW_SECONDS = 2.0
REMEMBER_SECONDS = 60.0
ENTRIES_MAX = 50_000


class _HostCalls(msgspec.Struct):
    """A merchant's calls to one host.

    Slowness is recorded per merchant, because the host may be fast for other merchants.
    """

    running: int = 0
    slow_until: float = 0.0
    is_quick: bool = False  # whether the last response was quick

    @property
    def is_slow(self) -> bool:
        return time.monotonic() < self.slow_until


class HostLimits:
    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._by_merchant: dict[tuple[int, str], _HostCalls] = {}
        self._running_slow = 0
        # A timed-out future is removed only when a call ends.
        # So at most WAITING_MAX messages wait for a host that hangs.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter_soon(self, host: str, merchant_id: int) -> tuple[bool, bool]:
        """Works like `enter`, but waits briefly for a fast host that is at its limit."""
        entered, is_slow = self.enter(host, merchant_id)
        if entered or is_slow:
            return entered, is_slow
        waiting = self._waiting.setdefault(host, deque())
        if len(waiting) >= WAITING_MAX:
            return False, False
        ended = asyncio.get_running_loop().create_future()
        waiting.append(ended)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended, time_limits.current.host_wait_seconds)
        return self.enter(host, merchant_id)

    def enter(self, host: str, merchant_id: int) -> tuple[bool, bool]:
        """Returns whether the host can be called now, and whether it counts as slow."""
        calls = self._by_merchant.get((merchant_id, host))
        if calls is None:
            self._forget_idle()
            calls = self._by_merchant[merchant_id, host] = _HostCalls()
        is_slow = calls.is_slow
        if is_slow and (calls.running >= SLOW_AT_ONCE or self._running_slow >= SLOW_IN_ALL):
            return False, True
        running = self._running.get(host, 0)
        if running >= AT_ONCE or (calls.running >= NEW_AT_ONCE and not calls.is_quick):
            return False, is_slow
        self._running_slow += is_slow
        self._running[host] = running + 1
        calls.running += 1
        return True, is_slow

    def leave(self, host: str, merchant_id: int, *, was_slow: bool, seconds: float) -> None:
        calls = self._by_merchant[merchant_id, host]
        calls.running -= 1
        self._running_slow -= was_slow
        self._running[host] -= 1
        if not self._running[host]:
            del self._running[host]
        calls.is_quick = seconds <= SLOW_SECONDS
        calls.slow_until = 0.0 if calls.is_quick else time.monotonic() + REMEMBER_SECONDS
        self._wake_next(host)

    def _wake_next(self, host: str) -> None:
        waiting = self._waiting.get(host)
        while waiting:
            ended = waiting.popleft()
            if not ended.done():
                ended.set_result(None)
                break
        if not waiting:
            self._waiting.pop(host, None)

    def _forget_idle(self) -> None:
        if len(self._by_merchant) >= ENTRIES_MAX:
            self._by_merchant = {
                key: calls for key, calls in self._by_merchant.items() if calls.running
            }


@lru_cache(maxsize=4096)
def host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or parts.scheme}"
