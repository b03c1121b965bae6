"""Runs plain SQL on PostgreSQL with asyncpg and returns structs. Fails early under overload."""

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from functools import lru_cache, partial
from typing import Any, Self

import asyncpg
import structlog

from manilla.kit import deadline, time_limits
from manilla.kit.database.connector import Connector
from manilla.kit.database.rows import Reads, Row, RowSource, converter
from manilla.kit.database.unavailable import (
    DATABASE_FAULTS,
    first_fault,
    means_unavailable,
    raise_unavailable,
)
from manilla.kit.database.unconfirmed import WAITING, UnconfirmedCommits
from manilla.kit.errors import Refusal, Unavailable

log = structlog.get_logger(__name__)

# With these settings, queries find rows through an index even in a small table.
# These settings are for SQL statements that look up a batch of rows by their keys.
# By default, the planner prefers a sequential scan when it joins a batch with a small table.
# A session may keep using the sequential scan while the table grows, until the next ANALYZE.
# These settings do not prevent a join that reads a whole index. Such a join is cheapest if the
# table was analyzed while it was empty. It needs an index whose first column is compared with `=`.
# An SQL statement that joins a batch with a table therefore compares this column with an array:
# `t.merchant_id = ANY (ARRAY[batch.merchant_id])`. PostgreSQL can use this only for a look-up.
BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
BY_KEY_SESSIONS = 6  # how many statements of `Database.records_by_key` run at the same time
READ_ONLY = {"default_transaction_read_only": "on"}
SET_BY_KEY = "; ".join(f"SET LOCAL {name} = {value}" for name, value in BY_KEY.items())

_WRITE = re.compile(r"\b(INSERT|UPDATE|DELETE)\b")

# These errors mean that an SQL statement conflicted with another one and had no effect.
# When the SQL statement is retried, it sees the changes made by the other one.
CONFLICTS = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
)


class Queries(RowSource):
    """The methods that run any SQL statement, shared by single sessions and the connection pool."""

    @abstractmethod
    def _session(self, sql: str) -> AbstractAsyncContextManager[Any]:
        """Opens an asyncpg session for one SQL statement."""

    async def fetch(self, method: str, sql: str, values: Sequence[Any]) -> Any:
        async with self._session(sql) as raw:
            return await getattr(raw, method)(sql, *values)

    async def execute(self, sql: str, *values: Any) -> None:
        async with self._session(sql) as raw:
            await raw.execute(sql, *values)


class Connection(Queries):
    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def _session(self, _sql: str) -> AbstractAsyncContextManager[Any]:
        return nullcontext(self._raw)

    async def copy_from_query(self, sql: str, *values: Any, output: Any) -> None:
        """Passes the query's rows to `output`, as text in the format of COPY."""
        await self._raw.copy_from_query(sql, *values, output=output)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            async with self._raw.transaction():
                yield
                _set_committing(self._raw, True)
        finally:
            _set_committing(self._raw, False)


class KeptConnection:
    """A dedicated session for an SQL statement that runs constantly, one call at a time.

    A small statement has less overhead in a dedicated session than through the pool. If the session
    is lost, the next statement opens another session.
    """

    def __init__(
        self,
        connector: Connector,
        options: dict[str, Any],
        guarded: Callable[[Any], AbstractAsyncContextManager[Any]],
        check: Callable[[], None],
        writes: bool = False,
    ) -> None:
        self._connector = connector
        self._options = options
        self._guarded = guarded
        self._check = check
        self._writes = writes
        self._raw: Any = None

    async def rows(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        return list(map(converter(kind), await self.records(sql, *values)))

    async def records(self, sql: str, *values: Any) -> list[Any]:
        self._check()
        with raise_unavailable(self._connector):
            if self._raw is None or self._raw.is_closed():
                self._raw = await self._connector.connect(**self._options)
                # Each SQL statement in this session is committed immediately.
                self._raw.set_committing(self._writes)
            async with self._guarded(self._raw) as raw:
                records: list[Any] = await raw.fetch(sql, *values)
                return records

    def terminate(self) -> None:
        if self._raw is not None:
            self._raw.terminate()

    async def close(self) -> None:
        if self._raw is not None:
            await self._raw.close(timeout=time_limits.current.acquire_seconds)


class KeptConnections:
    """Dedicated sessions that statements share. Statements that find all of them busy wait."""

    def __init__(self, sessions: Sequence[KeptConnection]) -> None:
        # The session that was used last is used first: it has prepared most of the statements.
        self._free = list(sessions)
        self._places = asyncio.Semaphore(len(sessions))

    async def records(self, sql: str, *values: Any) -> list[Any]:
        async with self._places:
            session = self._free.pop()
            try:
                return await session.records(sql, *values)
            finally:
                self._free.append(session)


class Database(Queries, Reads):
    """A connection pool of limited size. Raises Unavailable if no connection is free in time."""

    def __init__(self, connector: Connector, options: dict[str, Any], size: int) -> None:
        self._connector = connector
        settings = options["server_settings"]
        # By default, PostgreSQL plans an SQL statement with array parameters again on every call.
        # With this setting, the session plans each SQL statement only once.
        kept = {**settings, "plan_cache_mode": "force_generic_plan"}
        self._kept_options = {**options, "server_settings": kept}
        self._kept: list[KeptConnection] = []
        self.unconfirmed = UnconfirmedCommits(self._waiting, sessions_max=4 * size)
        self._looking = KeptConnection(connector, options, self._guarded, lambda: None)
        self._by_key = KeptConnections(
            [self.keep_connection(BY_KEY, writes=True) for _ in range(BY_KEY_SESSIONS)]
        )
        self._pool = asyncpg.create_pool(
            connect=connector.connect,
            min_size=0,
            max_size=size,
            # No code changes a session's settings, so a released session needs no reset.
            reset=_keep_session,
            **options,
        )

    def keep_connection(
        self, settings: Mapping[str, str] | None = None, *, writes: bool = False
    ) -> KeptConnection:
        """Returns a dedicated session, which connects at its first statement.

        `writes`: whether the session's statements write to the WAL, so that their commits wait for
        a standby. `settings`: server settings for this session, in addition to the settings of all
        sessions.
        """
        options = dict(self._kept_options)
        options["server_settings"] = {**options["server_settings"], **(settings or {})}
        check = partial(self.unconfirmed.check, writes=writes)
        kept = KeptConnection(self._connector, options, self._guarded, check, writes)
        self._kept.append(kept)
        return kept

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        size: int,
        name: str,
        statement_seconds: int | None = None,
    ) -> Self:
        with raise_unavailable(), refused_when_unusable():
            db = cls(Connector(url), _options(name, statement_seconds), size)
            await db._pool
            async with db._pool.acquire():
                pass  # opening a connection already shows whether the database is reachable
        return db

    @classmethod
    async def open_standby(
        cls,
        url: str,
        *,
        size: int,
        name: str,
        statement_seconds: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Self:
        """Returns a pool of sessions that cannot write. Does not connect, as a standby may be down.

        `settings`: additional server settings of the sessions.
        """
        options = _options(name, statement_seconds)
        options["server_settings"] |= {**READ_ONLY, **(settings or {})}
        with refused_when_unusable():
            db = cls(Connector(url, target="standby"), options, size)
            await db._pool
        return db

    async def reconnect(self) -> None:
        """Closes each session when it is released, so that the next statement connects again."""
        await self._pool.expire_connections()

    async def close(self) -> None:
        self.unconfirmed.close()
        self._looking.terminate()
        for kept in self._kept:
            with suppress(*DATABASE_FAULTS):
                await kept.close()
        with suppress(TimeoutError):  # on timeout, asyncpg has terminated the connections
            async with asyncio.timeout(time_limits.current.database_close_seconds):
                await self._pool.close()

    @asynccontextmanager
    async def _session(self, sql: str = "") -> AsyncIterator[Any]:
        self.unconfirmed.check(writes=is_write(sql))
        with raise_unavailable(self._connector), deadline.counted():
            async with (
                self._pool.acquire(timeout=_seconds_to_acquire()) as raw,
                self._until_late(raw),
                self._guarded(raw),
            ):
                yield raw

    @asynccontextmanager
    async def _guarded(self, raw: Any) -> AsyncIterator[Any]:
        """Closes or cleans up a session that a failed SQL statement has made unusable."""
        try:
            yield raw
        except Refusal:
            raise
        except BaseException as error:
            if not means_unavailable(error, raw):
                if raw.is_committing:  # the caller was canceled
                    self.unconfirmed.leave(raw)
                else:
                    await _end_statement(raw)
                raise
            await self._give_up(raw, error)
            raise Unavailable(host=self._connector.host) from first_fault(error)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with self._session() as raw:
            yield Connection(raw)

    @asynccontextmanager
    async def _until_late(self, raw: Any) -> AsyncIterator[None]:
        """Closes the session when the request's time limit is reached, even during a commit.

        The statement itself is not canceled, because a cancel request needs a responding server. If
        a commit waits for a synchronous standby, a cancel request would also complete the commit
        without the standby's confirmation.
        """
        left = deadline.remaining_seconds()
        if left is None:
            yield
            return
        is_late = False

        def end() -> None:
            nonlocal is_late
            is_late = True
            self.unconfirmed.leave(raw)

        late = asyncio.get_running_loop().call_later(left, end)
        try:
            yield
        except Unavailable as unavailable:
            if is_late:
                raise Unavailable(host=unavailable.host) from TimeoutError(deadline.USED_UP)
            raise
        finally:
            late.cancel()

    async def _waiting(self, pids: Sequence[int]) -> list[int]:
        """Returns which of these server processes are waiting for a standby's confirmation."""
        # Do not use the pool, because all of its sessions may be waiting.
        found = await self._looking.records(WAITING, list(pids))
        if not found:
            self._looking.terminate()
        return [record["pid"] for record in found]

    async def _give_up(self, raw: Any, error: BaseException) -> None:
        self.unconfirmed.leave(raw)
        if isinstance(error, TimeoutError) and not self.unconfirmed.are_waiting:
            # The server hangs, but idle sessions still look usable, so close all sessions.
            # Each idle session would otherwise cause one more timeout, even after a failover.
            log.error("database_hangs", host=self._connector.host)
            self._connector.lose_sessions()
            await self._pool.expire_connections()
            for kept in self._kept:
                kept.terminate()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        self.unconfirmed.check(writes=True)
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def read_only(self) -> AsyncIterator[Connection]:
        """Opens a transaction that cannot write."""
        async with self._session() as raw, raw.transaction(readonly=True):
            yield Connection(raw)

    @asynccontextmanager
    async def by_key(self) -> AsyncIterator[Connection]:
        async with self.read_only() as connection:
            await connection.execute(SET_BY_KEY)
            yield connection

    async def records_by_key(self, sql: str, *values: Any) -> list[Any]:
        """Runs one SQL statement that finds rows through an index, even in a small table.

        Its dedicated session has the planner options, so the statement needs no transaction, and
        the session plans the statement only once. Use this method for statements that run all the
        time: the pool takes four times the CPU time, and PostgreSQL plans most statements again.
        """
        return await self._by_key.records(sql, *values)

    async def rows_by_key(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        """Works like `records_by_key`, and converts each record to the given struct."""
        return list(map(converter(kind), await self.records_by_key(sql, *values)))


@asynccontextmanager
async def transaction_of(db: Database | Connection) -> AsyncIterator[Connection]:
    """Opens a transaction, or a savepoint if the connection is already in a transaction."""
    if isinstance(db, Database):
        async with db.transaction() as connection:
            yield connection
    else:
        async with db.transaction():
            yield db


def _options(name: str, statement_seconds: int | None) -> dict[str, Any]:
    """Returns the options of all sessions of a pool."""
    limits = time_limits.current
    if statement_seconds is None:
        statement_seconds = limits.statement_seconds
    is_short = statement_seconds <= limits.statement_seconds
    settings = {
        "application_name": name,
        "statement_timeout": f"{statement_seconds}s",
        "idle_in_transaction_session_timeout": f"{statement_seconds}s",
        "transaction_timeout": f"{limits.transaction_seconds if is_short else 0}s",
        "timezone": "UTC",
        "datestyle": "ISO",
        "jit": "off",
    }
    return {
        "server_settings": settings,
        "command_timeout": statement_seconds + limits.statement_grace_seconds,
    }


class UnusableDatabase(Refusal):
    message = "The database cannot be used."


@contextmanager
def refused_when_unusable() -> Iterator[None]:
    """Raises UnusableDatabase for errors that a retry cannot fix, such as a wrong database URL."""
    try:
        yield
    except (
        asyncpg.InvalidCatalogNameError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InsufficientPrivilegeError,
        ValueError,  # the URL is invalid (asyncpg raises a subclass of ValueError)
        OverflowError,
    ) as error:
        raise UnusableDatabase(f"The database cannot be used: {error}") from error


async def connect(
    url: str, *, statement_seconds: float | None = None, target: str | None = None
) -> Any:
    """Opens a single session. Migrations set no statement timeout, because they can take hours."""
    limit = time_limits.current.start_connect_seconds
    with raise_unavailable(), refused_when_unusable():
        connector = Connector(url, only_host_seconds=limit, target=target)
        return await connector.connect(command_timeout=statement_seconds)


@asynccontextmanager
async def session(
    url: str, *, statement_seconds: float | None, target: str | None = None
) -> AsyncIterator[Any]:
    """Opens a single session, and closes it at the end of the block.

    `target`: the role of the host, as in `Connector`.
    """
    raw = await connect(url, statement_seconds=statement_seconds, target=target)
    try:
        with raise_unavailable():
            yield raw
    finally:
        with suppress(*DATABASE_FAULTS):
            await raw.close(timeout=time_limits.current.acquire_seconds)


def _seconds_to_acquire() -> float:
    left, limit = deadline.remaining_seconds(), time_limits.current.acquire_seconds
    return limit if left is None else min(left, limit)


def _set_committing(raw: Any, is_committing: bool) -> None:
    with suppress(AttributeError):  # the session is already back in the pool
        raw.set_committing(is_committing)


@lru_cache(maxsize=1024)
def is_write(sql: str) -> bool:
    return _WRITE.search(sql) is not None


async def _end_statement(raw: Any) -> None:
    """Ends an SQL statement that was prepared but not executed.

    To the server, such a statement is still running. The statement's timeout would end the
    next statement in this session, and `now()` would return the old start time.
    """
    with suppress(Exception):
        await raw.execute("")


async def _keep_session(_connection: Any) -> None:
    return
