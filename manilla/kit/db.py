"""PostgreSQL through asyncpg: runs plain SQL, returns structs, fails early instead of queueing."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import Any, Self, TypeVar

import asyncpg
import msgspec
import structlog

from manilla.kit import deadline, time_limits
from manilla.kit.connector import PASSING, Connector
from manilla.kit.errors import Refusal, Unavailable

log = structlog.get_logger(__name__)

Row = TypeVar("Row", bound=msgspec.Struct)

# Errors that a lost connection, a failover, a full disk or a server without free connections
# causes. After any of them it is unknown whether a commit in progress took effect.
AWAY = (
    *PASSING,
    asyncpg.InterfaceError,
    # The session's server has been demoted from primary to standby.
    asyncpg.ReadOnlySQLTransactionError,
)
# Errors of a statement that conflicted with another one and had no effect. A retry sees the other
# one's changes.
CONFLICTS = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
)


def columns(kind: type[msgspec.Struct], **computed: str) -> str:
    """Returns the struct's fields as a column list, so that only the struct names columns.

    `computed` has the SQL of fields that are not columns.
    """
    return ", ".join(
        f"{computed[name]} AS {name}" if name in computed else name
        for name in kind.__struct_fields__
    )


def only_if(condition: str, *names: str, **computed: str) -> dict[str, str]:
    """Returns the SQL of columns that are null unless a condition is met, which saves reading them.

    `computed` has the SQL of those that are more than a column.
    """
    sources = {name: name for name in names} | computed
    return {name: f"CASE WHEN {condition} THEN {sql} END" for name, sql in sources.items()}


def shared(kind: type[msgspec.Struct], source: msgspec.Struct) -> dict[str, Any]:
    """Returns the fields of `kind` with their values from a struct that has them too."""
    return {name: getattr(source, name) for name in kind.__struct_fields__}


class Queries(ABC):
    """The methods for running statements, which sessions and the pool share.

    `row` and `rows` convert each record to the given struct.
    """

    @abstractmethod
    def _session(self) -> AbstractAsyncContextManager[Any]:
        """Opens an asyncpg session for one statement."""

    async def rows(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        return [kind(**record) for record in await self.records(sql, *values)]

    async def row(self, kind: type[Row], sql: str, *values: Any) -> Row | None:
        record = await self.record(sql, *values)
        return None if record is None else kind(**record)

    async def records(self, sql: str, *values: Any) -> list[Any]:
        async with self._session() as raw:
            records: list[Any] = await raw.fetch(sql, *values)
            return records

    async def record(self, sql: str, *values: Any) -> Any:
        async with self._session() as raw:
            return await raw.fetchrow(sql, *values)

    async def value(self, sql: str, *values: Any) -> Any:
        async with self._session() as raw:
            return await raw.fetchval(sql, *values)

    async def number(self, sql: str, *values: Any) -> int:
        return int(await self.value(sql, *values))

    async def has_row(self, sql: str, *values: Any) -> bool:
        """Whether the statement returns a row, such as the row that it has changed."""
        return await self.record(sql, *values) is not None

    async def execute(self, sql: str, *values: Any) -> None:
        async with self._session() as raw:
            await raw.execute(sql, *values)


class Connection(Queries):
    """One database session."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def _session(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext(self._raw)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self._raw.transaction():
            yield


class KeptConnection:
    """A dedicated session for a statement that runs constantly, one call at a time.

    It avoids the pool, whose overhead costs more than a small statement. If the session is lost,
    the next statement opens another.
    """

    def __init__(
        self,
        connector: Connector,
        options: dict[str, Any],
        guarded: Callable[[Any], AbstractAsyncContextManager[Any]],
    ) -> None:
        self._connector = connector
        self._options = options
        self._guarded = guarded
        self._raw: Any = None

    async def rows(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        return [kind(**record) for record in await self.records(sql, *values)]

    async def records(self, sql: str, *values: Any) -> list[Any]:
        with unavailable_when_away(self._connector):
            if self._raw is None or self._raw.is_closed():
                self._raw = await self._connector.connect(**self._options)
            async with self._guarded(self._raw) as raw:
                records: list[Any] = await raw.fetch(sql, *values)
                return records

    def terminate(self) -> None:
        if self._raw is not None:
            self._raw.terminate()

    async def close(self) -> None:
        if self._raw is not None:
            await self._raw.close(timeout=time_limits.current.acquire_seconds)


class Database(Queries):
    """A bounded connection pool. Raises Unavailable if no connection is free in time."""

    def __init__(self, connector: Connector, options: dict[str, Any], size: int) -> None:
        self._connector = connector
        settings = options["server_settings"]
        # Plan each statement only once. By default the server plans statements with array
        # parameters again on every call.
        kept = {**settings, "plan_cache_mode": "force_generic_plan"}
        self._kept_options = {**options, "server_settings": kept}
        self._kept: list[KeptConnection] = []
        self._pool = asyncpg.create_pool(
            connect=connector.connect,
            min_size=0,
            max_size=size,
            # Skip the reset round trip when a session is released, because no code changes session
            # settings.
            reset=_keep_session,
            **options,
        )

    def keep_connection(self, **settings: str) -> KeptConnection:
        """`settings`: the server's settings for this session, besides those of all sessions."""
        options = dict(self._kept_options)
        options["server_settings"] = {**options["server_settings"], **settings}
        kept = KeptConnection(self._connector, options, self._guarded)
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
        limits = time_limits.current
        if statement_seconds is None:
            statement_seconds = limits.statement_seconds
        settings = {
            "application_name": name,
            "statement_timeout": f"{statement_seconds}s",
            "idle_in_transaction_session_timeout": f"{statement_seconds}s",
            "timezone": "UTC",
            "datestyle": "ISO",
            "jit": "off",
        }
        options = {
            "server_settings": settings,
            "command_timeout": statement_seconds + limits.statement_grace_seconds,
        }
        with unavailable_when_away(), refused_when_unusable():
            db = cls(Connector(url), options, size)
            await db._pool
            async with db._pool.acquire():
                pass  # only checks that the database can be reached
        return db

    async def close(self) -> None:
        for kept in self._kept:
            with suppress(*AWAY):
                await kept.close()
        with suppress(TimeoutError):  # on timeout, asyncpg has closed the connections by force
            async with asyncio.timeout(time_limits.current.database_close_seconds):
                await self._pool.close()

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        with unavailable_when_away(self._connector), deadline.counted():
            async with (
                self._pool.acquire(timeout=_seconds_to_acquire()) as raw,
                _until_late(raw),
                self._guarded(raw),
            ):
                yield raw

    @asynccontextmanager
    async def _guarded(self, raw: Any) -> AsyncIterator[Any]:
        """Closes or cleans up a session that a failed statement has made unusable."""
        try:
            yield raw
        except Refusal:
            raise
        except AWAY as error:
            await self._give_up(raw, error)
            raise
        except BaseException:
            await _end_statement(raw)
            raise

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with self._session() as raw:
            yield Connection(raw)

    async def _give_up(self, raw: Any, error: Exception) -> None:
        if isinstance(error, ValueError):
            return
        raw.terminate()
        if isinstance(error, TimeoutError):
            # The server hangs. Idle sessions still look usable: unless they are closed, each of
            # them causes a timeout for one more caller, even after another host has taken over.
            log.error("database_hangs", host=self._connector.host)
            await self._pool.expire_connections()
            for kept in self._kept:
                kept.terminate()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection


@asynccontextmanager
async def transaction_of(db: Database | Connection) -> AsyncIterator[Connection]:
    """Opens a transaction, or a savepoint on a connection that already has a transaction."""
    if isinstance(db, Database):
        async with db.transaction() as connection:
            yield connection
    else:
        async with db.transaction():
            yield db


@contextmanager
def unavailable_when_away(connector: Connector | None = None) -> Iterator[None]:
    try:
        yield
    except AWAY as error:
        if isinstance(error, ValueError):
            # asyncpg.DataError is both an InterfaceError and a ValueError. It means that a value
            # cannot be encoded, which is a bug in the caller and not an unavailable server.
            raise
        raise Unavailable(host=connector.host if connector else None) from error


class UnusableDatabase(Refusal):
    message = "The database cannot be used."


@contextmanager
def refused_when_unusable() -> Iterator[None]:
    """Raises UnusableDatabase for errors that a retry cannot fix: a wrong URL or denied access."""
    try:
        yield
    except (
        asyncpg.InvalidCatalogNameError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InsufficientPrivilegeError,
        ValueError,  # an invalid URL, including asyncpg's own subclass
        OverflowError,
    ) as error:
        raise UnusableDatabase(f"The database cannot be used: {error}") from error


async def connect(url: str, *, statement_seconds: float | None = None) -> Any:
    """Opens a single session. Migrations pass no statement timeout, because they can take hours."""
    with unavailable_when_away(), refused_when_unusable():
        connector = Connector(url, only_host_seconds=time_limits.current.start_connect_seconds)
        return await connector.connect(command_timeout=statement_seconds)


@asynccontextmanager
async def session(url: str, *, statement_seconds: float | None) -> AsyncIterator[Any]:
    """Opens a single session for work at startup, and closes it at the end of the block."""
    raw = await connect(url, statement_seconds=statement_seconds)
    try:
        with unavailable_when_away():
            yield raw
    finally:
        with suppress(*AWAY):
            await raw.close(timeout=time_limits.current.acquire_seconds)


def _seconds_to_acquire() -> float:
    left, limit = deadline.left(), time_limits.current.acquire_seconds
    return limit if left is None else min(left, limit)


@asynccontextmanager
async def _until_late(raw: Any) -> AsyncIterator[None]:
    """Terminates the session when the request's time is up, even during a commit.

    The statement is not canceled. A cancel request needs a responding server, and it would make a
    commit that waits for a synchronous standby take effect without the standby.
    """
    left = deadline.left()
    if left is None:
        yield
        return
    late = asyncio.get_running_loop().call_later(left, raw.terminate)
    try:
        yield
    finally:
        late.cancel()


async def _end_statement(raw: Any) -> None:
    """Ends a statement that was prepared but not executed.

    The server considers it still running. Its timeout would end the statement of the next user of
    the session, whose `now()` would also return the old start time.
    """
    with suppress(Exception):
        await raw.execute("")


async def _keep_session(_connection: Any) -> None:
    return
