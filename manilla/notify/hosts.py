"""Who is called at the same time: a slow or dead host must not take the places of the others."""

import time
from urllib.parse import urlsplit

import msgspec

AT_ONCE = 64  # calls to one host: a third of all places
SLOW_AT_ONCE = 2  # to one that has been slow or silent
SLOW_IN_ALL = 48  # to all such hosts together
SLOW_SECONDS = 2.0
REMEMBER_SECONDS = 60.0
HOSTS_MAX = 50_000


class _Host(msgspec.Struct):
    calls: int = 0
    slow_until: float = 0.0

    @property
    def is_slow(self) -> bool:
        return time.monotonic() < self.slow_until


class Hosts:
    def __init__(self) -> None:
        self._hosts: dict[str, _Host] = {}
        self._slow_calls = 0

    def enter(self, name: str) -> tuple[bool, bool]:
        """Whether it may be called now, or has its share under way; whether it counts as slow."""
        host = self._hosts.get(name)
        if host is None:
            self._forget_idle()
            host = self._hosts[name] = _Host()
        is_slow = host.is_slow
        if is_slow:
            if host.calls >= SLOW_AT_ONCE or self._slow_calls >= SLOW_IN_ALL:
                return False, True
            self._slow_calls += 1
        elif host.calls >= AT_ONCE:
            return False, False
        host.calls += 1
        return True, is_slow

    def leave(self, name: str, *, was_slow: bool, seconds: float) -> None:
        host = self._hosts[name]
        host.calls -= 1
        if was_slow:
            self._slow_calls -= 1
        now = time.monotonic()
        host.slow_until = now + REMEMBER_SECONDS if seconds > SLOW_SECONDS else 0.0

    def _forget_idle(self) -> None:
        if len(self._hosts) >= HOSTS_MAX:
            self._hosts = {name: host for name, host in self._hosts.items() if host.calls}


def host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or parts.scheme}"
