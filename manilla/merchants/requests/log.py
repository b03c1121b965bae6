"""Writes a log of API requests and responses, which merchants can view.

A request only adds a line in memory. Lines are written in batches, twice a second, so no request
waits for the database. While the database is unavailable, lines stay in memory up to a limit. Lines
above the limit are dropped and counted.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

import msgspec
import structlog

from manilla import metrics
from manilla.kit.database.connections import CONFLICTS, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Unavailable
from manilla.sql import months

log = structlog.get_logger(__name__)

LINES_MAX = 10_000
BATCH_MAX = 1_000
FLUSH_SECONDS = 0.5
USE_SECONDS = 60  # minimum interval between updates of a credential's time of last use
USES_MAX = 10_000
TEXT_LENGTH_MAX = 300
USER_AGENT_LENGTH_MAX = 200

# Matches all but the last four digits of a number with at least ten digits.
_LONG_NUMBER = re.compile(r"[0-9]{6,}(?=[0-9]{4}(?![0-9]))")


class RequestLogLine(msgspec.Struct, frozen=True):
    merchant_id: int
    at: datetime
    request_id: str
    environment: str
    method: str
    path: str
    status: int
    error_code: str | None
    error: str | None
    errors: str | None  # JSON object that maps fields to error messages
    milliseconds: float
    address: str
    user_agent: str | None
    ref_trx: str | None
    trx_id: str | None
    api_key: str | None = None  # name of the API key, or None if no valid key was sent


_COLUMNS = columns(RequestLogLine)
# Encoding one JSON parameter takes a fifth of the CPU time of sixteen array parameters.
_INSERT = f"""
    INSERT INTO api_request ({_COLUMNS})
    SELECT {_COLUMNS.replace("errors", "errors::jsonb")}
      FROM json_to_recordset($1::json) AS l (
           merchant_id bigint, at timestamptz, request_id text, environment text, method text,
           path text, status smallint, error_code text, error text, errors text,
           milliseconds real, address text, user_agent text, ref_trx text, trx_id text,
           api_key text)"""


class KeyUse(NamedTuple):
    merchant_id: int
    environment: str
    number: int  # number of an additional key, or generation of the main credentials
    is_further: bool


class RequestLog:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._lines: deque[RequestLogLine] = deque()
        self._uses: dict[KeyUse, datetime] = {}
        self._written_uses: dict[KeyUse, float] = {}
        self._writing = asyncio.Lock()

    def add(self, line: RequestLogLine) -> None:
        if len(self._lines) >= LINES_MAX:
            metrics.request_lines_dropped.inc()
            return
        self._lines.append(line)

    def note_use(self, use: KeyUse, at: datetime) -> None:
        """Records that an authenticated request used an API key."""
        if time.monotonic() - self._written_uses.get(use, float("-inf")) >= USE_SECONDS:
            self._uses[use] = at

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
        """Writes a batch of lines. Drops them on any error except an unavailable database."""
        try:
            await insert_lines(self._db, batch)
        except Unavailable:
            raise
        except Exception:
            metrics.request_lines_dropped.inc(len(batch))
            log.exception("requests_not_writable", lines=len(batch))

    async def _write_uses(self) -> None:
        if not self._uses:
            return
        try:
            await _set_last_used(self._db, self._uses)
        except Unavailable:
            raise
        except Exception:
            # For example, a merchant whose move is in its cut-over. The next requests try again.
            log.exception("key_uses_not_written", uses=len(self._uses))
            self._uses = {}
            return
        moment = time.monotonic()
        if len(self._written_uses) > USES_MAX:
            self._written_uses = {}
        self._written_uses.update(dict.fromkeys(self._uses, moment))
        self._uses = {}


def plain(text: str, length_max: int = TEXT_LENGTH_MAX) -> str:
    """Shortens the text, and replaces characters that cannot be stored or displayed."""
    short = text[:length_max]
    if short.isprintable():
        return short
    return "".join(character if character.isprintable() else "\ufffd" for character in short)


def reason(text: str) -> str:
    """Returns a response's error text, with account numbers masked."""
    return _LONG_NUMBER.sub("******", plain(text))


def encode_errors(errors: Mapping[str, str] | None) -> str | None:
    """Encodes the fields' error messages as JSON for storage."""
    if not errors:
        return None
    kept = {plain(name): reason(text) for name, text in errors.items()}
    return msgspec.json.encode(kept).decode()


def agent(header: bytes | None) -> str | None:
    return plain(header.decode("latin-1"), USER_AGENT_LENGTH_MAX) if header else None


async def insert_lines(db: Database, lines: Sequence[RequestLogLine]) -> None:
    """Inserts log lines. Skips existing lines, because an earlier attempt may have succeeded."""
    text = msgspec.json.encode(lines).decode()
    try:
        await db.execute(_INSERT, text)
    except CONFLICTS:
        # ON CONFLICT makes PostgreSQL write more data, so it is used only after a conflict.
        await db.execute(f"{_INSERT} ON CONFLICT DO NOTHING", text)


async def _set_last_used(db: Database, uses: Mapping[KeyUse, datetime]) -> None:
    for table, number, is_further in (
        ("credential", "generation", False),
        ("api_key", "number", True),
    ):
        rows = [(*use[:3], at) for use, at in uses.items() if use.is_further is is_further]
        if rows:
            await _update_last_used(db, table, number, rows)


async def _update_last_used(
    db: Database, table: str, number: str, rows: Sequence[tuple[object, ...]]
) -> None:
    """Updates when credentials were last used. Locks rows in key order to prevent deadlocks."""
    await db.execute(
        f"""
        WITH used AS (
            SELECT merchant_id, environment, {number}, u.at
              FROM unnest($1::bigint[], $2::text[], $3::integer[], $4::timestamptz[])
                   AS u (merchant_id, environment, {number}, at)
              JOIN {table} USING (merchant_id, environment, {number})
             WHERE NOT lives_elsewhere(merchant_id)
             ORDER BY merchant_id, environment, {number}
               FOR NO KEY UPDATE OF {table})
        UPDATE {table} AS c SET last_used_at = greatest(c.last_used_at, used.at)
          FROM used
         WHERE c.merchant_id = used.merchant_id AND c.environment = used.environment
           AND c.{number} = used.{number}""",
        *map(list, zip(*rows, strict=True)),
    )


async def delete_old(db: Database, days: int) -> None:
    """Drops the months whose log lines are all older than this number of days."""
    await months.drop(db, "api_request", datetime.now(UTC) - timedelta(days=days))
