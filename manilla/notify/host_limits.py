"""Limits concurrent calls per host and merchant, so that slow hosts do not block other hosts."""

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
# Limit per merchant, for all hosts that did not respond quickly to the last call, or to none yet.
# A merchant can use a new host for each message, so limits per host are not enough.
UNPROVEN_AT_ONCE = 16
# Limit per merchant for calls and waiting messages, which is half of all places. A merchant with
# one host never reaches this limit before the host's limits.
PLACES_MAX = AT_ONCE + WAITING_MAX
SLOW_SECONDS = 2.0
REMEMBER_SECONDS = 60.0
ENTRIES_MAX = 50_000


class _MerchantCalls(msgspec.Struct):
    """A merchant's calls to all hosts."""

    places: int = 0  # running calls and waiting messages
    unproven: int = 0  # running calls to hosts that are not quick


class _HostCalls(msgspec.Struct):
    """A merchant's calls to one host.

    Slowness is recorded per merchant, because the host may be fast for other merchants.
    """

    merchant: _MerchantCalls
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
        self._merchants: dict[int, _MerchantCalls] = {}
        self._running_slow = 0
        # A timed-out future is removed only when a call ends.
        # So at most WAITING_MAX messages wait for a host that hangs.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter_soon(self, host: str, merchant_id: int) -> tuple[bool, bool]:
        """Works like `enter`, but waits briefly for a fast host that is at its limit."""
        entered, is_slow = self.enter(host, merchant_id)
        if entered or is_slow:
            return entered, is_slow
        merchant = self._merchants[merchant_id]
        if merchant.places >= PLACES_MAX or len(self._waiting.get(host, ())) >= WAITING_MAX:
            return False, False
        ended = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host, deque()).append(ended)
        merchant.places += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended, time_limits.current.host_wait_seconds)
        finally:
            merchant.places -= 1
        return self.enter(host, merchant_id)

    def enter(self, host: str, merchant_id: int) -> tuple[bool, bool]:
        """Returns whether the host can be called now, and whether it counts as slow.

        A host that cannot be called because of the merchant's other hosts also counts as slow.
        """
        calls = self._by_merchant.get((merchant_id, host))
        if calls is None:
            calls = self._new_calls(host, merchant_id)
        merchant, is_slow = calls.merchant, calls.is_slow
        if is_slow and (calls.running >= SLOW_AT_ONCE or self._running_slow >= SLOW_IN_ALL):
            return False, True
        if not calls.is_quick:
            if merchant.unproven >= UNPROVEN_AT_ONCE:
                return False, True
            if calls.running >= NEW_AT_ONCE:
                return False, is_slow
        running = self._running.get(host, 0)
        if running >= AT_ONCE or merchant.places >= PLACES_MAX:
            return False, is_slow
        self._running_slow += is_slow
        self._running[host] = running + 1
        calls.running += 1
        merchant.places += 1
        merchant.unproven += not calls.is_quick
        return True, is_slow

    def leave(self, host: str, merchant_id: int, *, was_slow: bool, seconds: float) -> None:
        calls = self._by_merchant[merchant_id, host]
        calls.running -= 1
        calls.merchant.places -= 1
        calls.merchant.unproven -= not calls.is_quick
        self._running_slow -= was_slow
        self._running[host] -= 1
        if not self._running[host]:
            del self._running[host]
        self._set_quick(calls, is_quick=seconds <= SLOW_SECONDS)
        calls.slow_until = 0.0 if calls.is_quick else time.monotonic() + REMEMBER_SECONDS
        self._wake_next(host)

    def _set_quick(self, calls: _HostCalls, *, is_quick: bool) -> None:
        """Also adds the host's other running calls to the merchant's limit, or removes them."""
        if is_quick is not calls.is_quick:
            calls.is_quick = is_quick
            calls.merchant.unproven += -calls.running if is_quick else calls.running

    def _wake_next(self, host: str) -> None:
        waiting = self._waiting.get(host)
        while waiting:
            ended = waiting.popleft()
            if not ended.done():
                ended.set_result(None)
                break
        if not waiting:
            self._waiting.pop(host, None)

    def _new_calls(self, host: str, merchant_id: int) -> _HostCalls:
        if len(self._by_merchant) >= ENTRIES_MAX:
            self._forget_idle()
        merchant = self._merchants.setdefault(merchant_id, _MerchantCalls())
        calls = self._by_merchant[merchant_id, host] = _HostCalls(merchant)
        return calls

    def _forget_idle(self) -> None:
        self._by_merchant = {
            key: calls for key, calls in self._by_merchant.items() if calls.running
        }
        self._merchants = {
            merchant_id: merchant
            for merchant_id, merchant in self._merchants.items()
            if merchant.places
        }


@lru_cache(maxsize=4096)
def host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or parts.scheme}"
