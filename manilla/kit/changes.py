"""Refreshes in-memory caches, so that they are at most one second behind the database.

Four times a second, a small query returns the topics that have changed, and the caches of these
topics are refreshed. If the query has not succeeded for a second, callers wait for its next success
instead of using cached data.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from manilla.kit import deadline
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Unavailable

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.25
STALE_AFTER_SECONDS = 0.9
# This time includes a safety margin, because a timer may fire early.
KNOWN_AFTER_SECONDS = STALE_AFTER_SECONDS + 0.05

SETTINGS = "settings"
MERCHANTS = "merchants"
PROVIDERS = "providers"
RAILS = "rails"
METHODS = "methods"
PRICES = "prices"
BANKS = "banks"
CELLS = "cells"

# A `Refresh` function receives the cached version of a topic. It refreshes the cache or raises.
Refresh = Callable[[int], Awaitable[None]]


class _Topic(msgspec.Struct, frozen=True):
    topic: str
    version: int


class ChangeWatch:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._refreshes: dict[str, Refresh] = {}
        self._versions: dict[str, int] = {}
        self._as_of = float("-inf")
        self._looking = asyncio.Lock()
        self._shared: asyncio.Task[None] | None = None

    def follow(self, topic: str, refresh: Refresh) -> None:
        """Registers the function that refreshes the topic's cache. A topic has only one such
        function.
        """
        assert topic not in self._refreshes
        self._refreshes[topic] = refresh

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._as_of < STALE_AFTER_SECONDS

    async def ensure_fresh(self) -> None:
        """Waits until cached data is fresh. Concurrent callers share one query and its outcome."""
        if self.is_fresh:
            return
        if self._shared is None or self._shared.done():
            self._shared = deadline.start_detached(self._look_once())
            self._shared.add_done_callback(_seen)
        await deadline.wait_for(self._shared)

    async def _look_once(self) -> None:
        async with self._looking:
            if not self.is_fresh:
                await self._look()

    async def look(self) -> None:
        async with self._looking:
            await self._look()

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except Unavailable as away:
                log.warning("changes_not_seen", **away.facts)
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self) -> None:
        as_of = time.monotonic()
        for seen in await self._db.rows(_Topic, "SELECT topic, version FROM change"):
            known = self._versions.get(seen.topic, -1)
            if seen.version != known and seen.topic in self._refreshes:
                await self._refreshes[seen.topic](known)
                self._versions[seen.topic] = seen.version
        self._as_of = as_of


def _seen(shared: "asyncio.Task[None]") -> None:
    """Retrieves the task's exception, because asyncio warns about exceptions that are never
    retrieved.
    """
    if not shared.cancelled():
        shared.exception()


async def known_everywhere() -> None:
    """Waits until the caches of all processes include every committed change."""
    await asyncio.sleep(KNOWN_AFTER_SECONDS)


async def announce(connection: Connection, topic: str) -> int:
    """Records, in the transaction that makes a change, that the topic's data has changed.

    The topic's row stays locked until the commit, so versions become visible in order.
    """
    return await connection.number(
        "UPDATE change SET version = version + 1 WHERE topic = $1 RETURNING version", topic
    )
