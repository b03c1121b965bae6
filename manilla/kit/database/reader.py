"""Reads from a standby of the database, or from the primary if the standby cannot be used.

A read first asks the primary for its current position in the WAL. Every commit that was confirmed
before has a lower position. If the standby has replayed the WAL up to this position, then the read
returns everything that a read on the primary would return, including the caller's own writes,
whichever process made them. Only a read that permits it returns older data.

A movement of money is never decided by these reads: they have another type than the database, and
their sessions and transactions reject statements that write.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

import asyncpg
import msgspec
import structlog

from manilla.kit import deadline, time_limits
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import BY_KEY, READ_ONLY, Connection, Database, is_write
from manilla.kit.database.rows import Reads, RowSource
from manilla.kit.errors import Refusal, Unavailable

log = structlog.get_logger(__name__)

AWAY_SECONDS = 5  # how long a standby that did not respond is not used
POLL_SECONDS = 0.005  # how often a waiting read looks whether the standby has caught up
BY_KEY_SIZE = 3  # the number of sessions for statements that find rows by their keys
A_READ_WRITES = "a read must not write"

# Another installation's standby can be at a higher position of a timeline with the same number.
_DATABASE = """
           (SELECT system_identifier FROM pg_control_system()) || ' ' || current_database()
               AS database"""
# `pg_current_wal_flush_lsn` and not the insert position: an unconfirmed commit need not be visible.
# The first 8 characters of a WAL file's name are its timeline in hexadecimal.
PRIMARY_POSITION = f"""
    SELECT left(pg_walfile_name(flushed), 8) AS timeline, (flushed - '0/0')::bigint AS lsn,
           clock_timestamp() AS at,{_DATABASE}
      FROM pg_current_wal_flush_lsn() AS flushed"""
# After a failover, a standby that is ahead of the new primary stays on the old timeline.
# This timeline is written at restart points, so after a failover it can be outdated, never ahead.
STANDBY_STATE = f"""
    SELECT pg_is_in_recovery() AS is_standby,
           lpad(upper(to_hex(min_recovery_end_timeline)), 8, '0') AS timeline,
           coalesce((pg_last_wal_replay_lsn() - '0/0')::bigint, 0) AS lsn,
           pg_last_xact_replay_timestamp() AS as_of,
           extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8
               AS age_seconds,{_DATABASE}
      FROM pg_control_recovery()"""


class ReadOutcome(StrEnum):
    """Where a read was served, and for what reason."""

    CURRENT = "standby"  # by the standby, with all confirmed commits
    OLDER = "standby_older"  # by the standby, with older data, which the read permits
    BEHIND = "primary_standby_behind"
    AWAY = "primary_standby_away"  # the standby did not respond, or is no longer a standby
    FAILED = "primary_standby_failed"  # for example, because replay canceled the statement


class WalPosition(msgspec.Struct, frozen=True, kw_only=True):
    database: str  # the cluster's system identifier and the database's name
    timeline: str
    lsn: int


class PrimaryPosition(WalPosition, frozen=True, kw_only=True):
    at: datetime  # the primary's time, which is also the clock of the commits that are replayed


class StandbyState(WalPosition, frozen=True, kw_only=True):
    is_standby: bool
    as_of: datetime | None  # the time of the last replayed commit, if any since its start
    age_seconds: float | None  # by the standby's clock

    def follows(self, primary: WalPosition) -> bool:
        """Returns whether the server is a standby of the primary's database."""
        return self.is_standby and self.database == primary.database

    def has_replayed(self, position: WalPosition) -> bool:
        is_same = (self.database, self.timeline) == (position.database, position.timeline)
        return is_same and self.lsn >= position.lsn


class _NotUsed(Exception):
    """The standby cannot serve a read, so the primary must."""

    def __init__(self, outcome: ReadOutcome) -> None:
        self.outcome = outcome


class StandbyBehind(Refusal):
    message = "The standby has not replayed all commits in time."


class StandbyOfAnother(Refusal):
    message = "The server for reads is not a standby of this database."


class Standby(msgspec.Struct, frozen=True):
    """The connections to a standby."""

    pool: Database
    by_key: Database  # for statements that find the rows of many requests by their keys

    @classmethod
    async def open(
        cls, url: str, *, size: int, name: str, statement_seconds: int | None = None
    ) -> Self:
        """Does not connect before the first read, because the standby may be down."""
        seconds = statement_seconds
        pool = await Database.open_standby(url, size=size, name=name, statement_seconds=seconds)
        by_key = await Database.open_standby(
            url, size=BY_KEY_SIZE, name=name, statement_seconds=seconds, settings=BY_KEY
        )
        return cls(pool, by_key)

    async def state(self) -> StandbyState:
        """Returns how far the standby has replayed the WAL."""
        return await _state(self.pool)

    async def close(self) -> None:
        await self.pool.close()
        await self.by_key.close()


class Reader:
    """Opens the reads of requests. Without a standby, all of them use the primary."""

    def __init__(
        self,
        primary: Database,
        standby: Standby | None = None,
        count: Callable[[ReadOutcome], None] = lambda _outcome: None,
    ) -> None:
        self.primary = primary
        self.standby = standby
        self.count = count
        self._session = primary.keep_connection()
        self._positions = Batcher(self._read_positions)
        self._away_until = 0.0
        self._is_behind = False  # whether the last read that waited for the standby did so in vain

    def begin(self, *, age_seconds_max: float = 0) -> "RequestReads":
        """Returns the reads of one request. By default they return all confirmed commits.

        `age_seconds_max`: how old the data may be if the standby is behind.
        """
        return RequestReads(self, age_seconds_max)

    async def position(self) -> PrimaryPosition:
        """Returns a position of the primary that was read after the start of this call."""
        return await self._positions.submit(None)

    async def _read_positions(self, callers: Sequence[None]) -> list[PrimaryPosition]:
        [position] = await self._session.rows(PrimaryPosition, PRIMARY_POSITION)
        return [position] * len(callers)

    async def run_on(
        self,
        standby: Database,
        wanted: "RequestReads",
        method: str,
        sql: str,
        values: Sequence[Any],
    ) -> Any:
        """Runs a statement on the standby. Raises _NotUsed if the primary must run it."""
        if asyncio.get_running_loop().time() < self._away_until:
            raise _NotUsed(ReadOutcome.AWAY)
        needed = await wanted.position()
        left, limit = deadline.remaining_seconds(), time_limits.current.standby_seconds
        # A session of a hanging standby does not end in time, so this task may outlive the request.
        reading = deadline.start_detached(self._read(standby, wanted, needed, method, sql, values))
        with deadline.counted():
            await asyncio.wait({reading}, timeout=limit if left is None else min(left, limit))
        if not reading.done():
            reading.add_done_callback(_ignore_result)
            self._avoid_for_a_while("it did not respond in time")
            raise _NotUsed(ReadOutcome.AWAY)
        return self._result_of(reading)

    def _result_of(self, reading: "asyncio.Task[Any]") -> Any:
        try:
            return reading.result()
        except Unavailable as unavailable:
            self._avoid_for_a_while(str(unavailable.facts["cause"]))
            raise _NotUsed(ReadOutcome.AWAY) from unavailable
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            # Replay can cancel statements, and an upgrade's migration may not be replayed yet.
            # If the error has another cause, then the statement also fails on the primary.
            log.warning("standby_read_failed", error=repr(error))
            raise _NotUsed(ReadOutcome.FAILED) from error

    async def _read(
        self,
        standby: Database,
        wanted: "RequestReads",
        needed: PrimaryPosition,
        method: str,
        sql: str,
        values: Sequence[Any],
    ) -> Any:
        # Both statements run in one session, because another session may use another standby.
        async with standby.connection() as connection:
            state = await self._catch_up(connection, needed)
            if not state.is_standby:
                await standby.reconnect()
                raise _NotUsed(ReadOutcome.AWAY)
            if not state.follows(needed):
                await standby.reconnect()
                self._avoid_for_a_while("it is a standby of another database")
                raise _NotUsed(ReadOutcome.AWAY)
            if not state.has_replayed(needed):
                wanted.accept(state, needed)
            return await connection.fetch(method, sql, values)

    async def _catch_up(self, connection: Connection, needed: WalPosition) -> StandbyState:
        """Waits until the standby has replayed this position, or until the time limit.

        If the previous read waited in vain, a read waits only for a standby that replays again.
        """
        loop, wait_seconds = asyncio.get_running_loop(), time_limits.current.standby_wait_seconds
        ends_at = loop.time() + wait_seconds
        while True:
            state = await _state(connection)
            if state.has_replayed(needed) or not state.follows(needed):
                self._is_behind = False
                return state
            is_replaying = state.age_seconds is not None and state.age_seconds <= wait_seconds
            if loop.time() >= ends_at or (self._is_behind and not is_replaying):
                self._is_behind = True
                return state
            await asyncio.sleep(POLL_SECONDS)

    def _avoid_for_a_while(self, reason: str) -> None:
        self._away_until = asyncio.get_running_loop().time() + AWAY_SECONDS
        log.warning("standby_away", reason=reason)


class RequestReads(Reads):
    """The reads of one request. After the primary has served one of them, it serves the rest."""

    def __init__(self, reader: Reader, age_seconds_max: float) -> None:
        self._reader = reader
        self._age_seconds_max = age_seconds_max
        self._uses_primary = False
        self._position: PrimaryPosition | None = None
        # The time of the oldest data that was returned, or None if all data were current.
        self.as_of: datetime | None = None

    async def fetch(self, method: str, sql: str, values: Sequence[Any]) -> Any:
        if self._can_use_standby:
            assert self._reader.standby is not None
            with suppress(_NotUsed):
                return await self.fetch_from(self._reader.standby.pool, method, sql, values)
        assert not is_write(sql), A_READ_WRITES
        if self._reader.standby is None:
            return await self._reader.primary.fetch(method, sql, values)
        # The standby did not run the statement, so it did not reject a statement that writes.
        async with self._reader.primary.read_only() as connection:
            return await connection.fetch(method, sql, values)

    @asynccontextmanager
    async def by_key(self) -> AsyncIterator[RowSource]:
        if self._can_use_standby:
            yield _ByKey(self, self._reader)
        else:
            async with self._reader.primary.by_key() as connection:
                yield connection

    @property
    def _can_use_standby(self) -> bool:
        return self._reader.standby is not None and not self._uses_primary

    async def fetch_from(
        self, standby: Database, method: str, sql: str, values: Sequence[Any]
    ) -> Any:
        """Runs a statement on the standby. Raises _NotUsed if the primary must run it."""
        assert not is_write(sql), A_READ_WRITES
        try:
            found = await self._reader.run_on(standby, self, method, sql, values)
        except _NotUsed as not_used:
            self._uses_primary = True
            self._reader.count(not_used.outcome)
            raise
        self._reader.count(ReadOutcome.CURRENT if self.as_of is None else ReadOutcome.OLDER)
        return found

    async def position(self) -> PrimaryPosition:
        """Returns the position that the standby must have replayed, which is read only once."""
        if self._position is None:
            self._position = await self._reader.position()
        return self._position

    def accept(self, state: StandbyState, needed: PrimaryPosition) -> None:
        """Records that the data are older. Raises _NotUsed if they are older than permitted."""
        if state.as_of is None or state.timeline != needed.timeline:
            raise _NotUsed(ReadOutcome.BEHIND)
        # Both times are from the primary's clock: the standby's clock can be wrong.
        if (needed.at - state.as_of).total_seconds() > self._age_seconds_max:
            raise _NotUsed(ReadOutcome.BEHIND)
        self.as_of = min(filter(None, (self.as_of, state.as_of)))


class _ByKey(RowSource):
    """A request's statements that find rows by their keys."""

    def __init__(self, wanted: RequestReads, reader: Reader) -> None:
        self._wanted, self._reader = wanted, reader

    async def fetch(self, method: str, sql: str, values: Sequence[Any]) -> Any:
        assert self._reader.standby is not None
        with suppress(_NotUsed):
            return await self._wanted.fetch_from(self._reader.standby.by_key, method, sql, values)
        async with self._reader.primary.by_key() as connection:
            return await connection.fetch(method, sql, values)


class ReaderByKey:
    """Runs the statements of `SharedReads`. Each returns all commits confirmed before its start."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._session = reader.primary.keep_connection({**BY_KEY, **READ_ONLY})

    async def records(self, sql: str, *values: Any) -> list[Any]:
        standby = self._reader.standby
        if standby is not None:
            wanted = self._reader.begin()
            with suppress(_NotUsed):
                found: list[Any] = await wanted.fetch_from(standby.by_key, "fetch", sql, values)
                return found
        return await self._session.records(sql, *values)


async def position_of(primary: RowSource) -> PrimaryPosition:
    """Returns the primary's position. Every commit confirmed before has a lower position."""
    position = await primary.row(PrimaryPosition, PRIMARY_POSITION)
    assert position is not None
    return position


async def wait_until_replayed(standby: RowSource, needed: WalPosition) -> None:
    """Waits for the standby of a long read. Raises StandbyBehind after the time limit."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + time_limits.current.standby_proof_seconds
    while True:
        state = await _state(standby)
        if state.has_replayed(needed):
            return
        if not state.follows(needed):
            raise StandbyOfAnother
        if loop.time() >= ends_at:
            raise StandbyBehind
        await asyncio.sleep(POLL_SECONDS)


async def _state(standby: RowSource) -> StandbyState:
    state = await standby.row(StandbyState, STANDBY_STATE)
    assert state is not None
    return state


def _ignore_result(reading: "asyncio.Task[Any]") -> None:
    if not reading.cancelled():
        reading.exception()
