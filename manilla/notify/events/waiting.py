"""Lets clients wait for the next event. One query per second serves all clients of a process."""

import asyncio
import contextlib
import math

import structlog

from manilla.kit import deadline
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.kit.ratelimit import RateLimitExceeded
from manilla.notify.events import listing
from manilla.notify.events.listing import EventReader

log = structlog.get_logger(__name__)

POLL_SECONDS = 1.0
READERS_MAX = 256  # maximum in this process
READERS_PER_MERCHANT_MAX = 8
TOO_MANY = "Too many requests wait for events. Use fewer, or omit `wait`."


class EventWaiting:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[asyncio.Event, EventReader] = {}
        self._polling: asyncio.Task[None] | None = None

    async def wait(self, reader: EventReader, seconds: float) -> None:
        """Returns when there is an event for the reader, or when the waiting time has ended.

        Raises if too many readers wait, because an immediate empty page would make them retry in a
        loop. Holds no database connection while waiting.
        """
        if not self._has_room(reader):
            raise RateLimitExceeded(TOO_MANY, retry_after_seconds=math.ceil(seconds))
        arrived = asyncio.Event()
        self._waiting[arrived] = reader
        if self._polling is None or self._polling.done():
            self._polling = deadline.start_detached(self._poll())
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await arrived.wait()
        finally:
            del self._waiting[arrived]

    def _has_room(self, reader: EventReader) -> bool:
        merchant_id = reader.tenant.merchant_id
        mine = sum(each.tenant.merchant_id == merchant_id for each in self._waiting.values())
        return mine < READERS_PER_MERCHANT_MAX and len(self._waiting) < READERS_MAX

    async def _poll(self) -> None:
        while self._waiting:
            readers = dict(self._waiting)
            try:
                news = await listing.have_news(self._db, list(readers.values()))
            except Unavailable as away:
                log.warning("events_not_seen", **away.facts)
                news = []
            for arrived, has_news in zip(readers, news, strict=False):
                if has_news:
                    arrived.set()
            await asyncio.sleep(POLL_SECONDS)
