"""Keeps what a process holds in memory at most a second older than the database.

One small query, four times a second, asks which topics have changed; whoever holds data of a topic
is told to bring it up to date. When that query has not succeeded for a second, readers wait for the
next one instead of trusting what they hold.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from manilla.kit import deadline
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Unavailable

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.25
STALE_AFTER_SECONDS = 0.9

SETTINGS = "settings"
MERCHANTS = "merchants"
PROVIDERS = "providers"
RAILS = "rails"
METHODS = "methods"

# Called with the version known before; brings its holder's data up to date, or raises.
Refresh = Callable[[int], Awaitable[None]]


class _Topic(msgspec.Struct, frozen=True):
    topic: str
    version: int


class Watch:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._refreshes: dict[str, Refresh] = {}
        self._versions: dict[str, int] = {}
        self._as_of = float("-inf")
        self._looking = asyncio.Lock()
        self._shared: asyncio.Task[None] | None = None

    def follow(self, topic: str, refresh: Refresh) -> None:
        """One for each topic: who comes second would leave the first with what is out of date."""
        assert topic not in self._refreshes
        self._refreshes[topic] = refresh

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self._as_of < STALE_AFTER_SECONDS

    async def ensure_fresh(self) -> None:
        """Whoever waits shares one look: where it fails, all are told, and none waits in a row."""
        if self.is_fresh:
            return
        if self._shared is None or self._shared.done():
            self._shared = deadline.detached(self._look_once())
            self._shared.add_done_callback(_seen)
        await deadline.wait_for(self._shared)

    async def _look_once(self) -> None:
        async with self._looking:
            if not self.is_fresh:
                await self._look()

    async def run(self) -> None:
        while True:
            try:
                async with self._looking:
                    await self._look()
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
    """Nobody may be left to see the error: whoever waited has given up."""
    if not shared.cancelled():
        shared.exception()


async def announce(connection: Connection, topic: str) -> int:
    """Says, within the transaction that makes it, that something of this topic changes.

    The row stays locked until the commit: versions appear in the order in which they were given.
    """
    version: int = await connection.value(
        "UPDATE change SET version = version + 1 WHERE topic = $1 RETURNING version", topic
    )
    return version
