"""The log of API requests and responses, which merchants can look up.

A request only adds a line in memory. Lines are written in batches, twice a second, so no request
waits for them. While the database is unavailable they are kept up to a limit; lines beyond the
limit are dropped and counted.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice

import msgspec
import structlog

from manilla import metrics
from manilla.kit.db import Database
from manilla.kit.errors import Unavailable
from manilla.merchants import request_queries
from manilla.merchants.request_queries import EndpointUse, RequestLogLine

log = structlog.get_logger(__name__)

LINES_MAX = 10_000
BATCH_MAX = 1_000
FLUSH_SECONDS = 0.5
USE_SECONDS = 60  # minimum interval between updates of a credential's last use
USES_MAX = 10_000
TEXT_LENGTH_MAX = 300
USER_AGENT_LENGTH_MAX = 200
KEEP = timedelta(days=30)

_LONG_NUMBER = re.compile(r"[0-9]{6,}(?=[0-9]{4}(?![0-9]))")  # all but its last four digits


class RequestLog:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._lines: deque[RequestLogLine] = deque()
        self._uses: dict[tuple[int, str, int], datetime] = {}
        self._written_uses: dict[tuple[int, str, int], float] = {}
        self._writing = asyncio.Lock()

    def add(self, line: RequestLogLine) -> None:
        if len(self._lines) >= LINES_MAX:
            metrics.request_lines_dropped.inc()
            return
        self._lines.append(line)

    def note_use(self, merchant_id: int, environment: str, generation: int, at: datetime) -> None:
        """Records that a credential was used in an authenticated request."""
        key = merchant_id, environment, generation
        if time.monotonic() - self._written_uses.get(key, float("-inf")) >= USE_SECONDS:
            self._uses[key] = at

    async def run(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await self.flush()
            except Unavailable as away:
                log.warning("requests_not_written", waiting=len(self._lines), **away.facts)

    async def close(self) -> None:
        """Writes the lines that are still in memory, if possible."""
        try:
            await self.flush()
        except Unavailable as away:
            log.warning("requests_lost", lines=len(self._lines), **away.facts)

    async def flush(self) -> None:
        async with self._writing:
            while self._lines:
                batch = list(islice(self._lines, BATCH_MAX))
                await self._write(batch)
                for _ in batch:
                    self._lines.popleft()
            await self._write_uses()

    async def _write(self, batch: list[RequestLogLine]) -> None:
        """Writes a batch. Drops it on any error other than an unavailable database."""
        try:
            await request_queries.insert(self._db, batch)
        except Unavailable:
            raise
        except Exception:
            metrics.request_lines_dropped.inc(len(batch))
            log.exception("requests_not_writable", lines=len(batch))

    async def _write_uses(self) -> None:
        if not self._uses:
            return
        written = [EndpointUse(*key, at) for key, at in self._uses.items()]
        await request_queries.set_last_used(self._db, written)
        moment = time.monotonic()
        if len(self._written_uses) > USES_MAX:
            self._written_uses = {}
        self._written_uses.update(dict.fromkeys(self._uses, moment))
        self._uses = {}


def plain(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """Shortens the text and replaces characters that cannot be stored or shown."""
    short = text[:length_max]
    if short.isprintable():
        return short
    return "".join(character if character.isprintable() else "\ufffd" for character in short)


def reason(text: str) -> str:
    """Returns the error text of a response, with account numbers masked."""
    return _LONG_NUMBER.sub("******", plain(text))


def named(errors: Mapping[str, str] | None) -> str | None:
    """Encodes the errors per field as JSON for storage."""
    if not errors:
        return None
    kept = {plain(name): reason(text) for name, text in errors.items()}
    return msgspec.json.encode(kept).decode()


def agent(header: bytes | None) -> str | None:
    return plain(header.decode("latin-1"), USER_AGENT_LENGTH_MAX) if header else None


def moment_before(seconds: float) -> datetime:
    return datetime.fromtimestamp(time.time() - seconds, UTC)


async def forget_old(db: Database) -> None:
    await request_queries.forget_before(db, datetime.now(UTC) - KEEP)
