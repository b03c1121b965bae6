"""PostgreSQL through asyncpg: plain SQL in, structs out, early refusal instead of long queues."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, Self, TypeVar

import asyncpg
import msgspec

from manilla.kit.errors import Refusal, Unavailable

Row = TypeVar("Row", bound=msgspec.Struct)

CONNECT_TIMEOUT_SECONDS = 5
ACQUIRE_TIMEOUT_SECONDS = 2
STATEMENT_TIMEOUT_SECONDS = 5

# What a lost server, a failover, a full disk or a full server looks like. None of these says
# whether a commit that was under way took effect.
AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InterfaceError,
    # A connection on which the server has already said goodbye, though its end is yet to come.
    asyncpg.InternalClientError,
)
# Two statements met, and this one gave way without an effect: the next try sees what the other did.
CONFLICTS = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.UniqueViolationError,
)


class Connection:
    """One session. Reads name the struct their rows become."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    async def rows(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        return [kind(**record) for record in await self._raw.fetch(sql, *values)]

    async def row(self, kind: type[Row], sql: str, *values: Any) -> Row | None:
        record = await self._raw.fetchrow(sql, *values)
        return None if record is None else kind(**record)

    async def record(self, sql: str, *values: Any) -> Any:
        return await self._raw.fetchrow(sql, *values)

    async def records(self, sql: str, *values: Any) -> list[Any]:
        records: list[Any] = await self._raw.fetch(sql, *values)
        return records

    async def value(self, sql: str, *values: Any) -> Any:
        return await self._raw.fetchval(sql, *values)

    async def execute(self, sql: str, *values: Any) -> None:
        await self._raw.execute(sql, *values)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self._raw.transaction():
            yield


class KeptConnection:
    """A session of one's own, for a statement that is run all the time and one at a time.

    It spares the pool's bookkeeping, which costs more than a small statement does. A lost session
    is opened anew by the next statement.
    """

    def __init__(self, connect: Callable[[], Awaitable[Any]]) -> None:
        self._connect = connect
        self._raw: Any = None

    async def rows(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        with unavailable_when_away():
            if self._raw is None or self._raw.is_closed():
                self._raw = await self._connect()
            try:
                return [kind(**record) for record in await self._raw.fetch(sql, *values)]
            except AWAY:
                self._raw.terminate()
                raise
            except BaseException:
                await _end_statement(self._raw)
                raise

    async def close(self) -> None:
        if self._raw is not None:
            await self._raw.close()


class Database:
    """A bounded pool. A caller that cannot have a connection soon is told to come back later."""

    def __init__(self, pool: Any, connect: Callable[[], Awaitable[Any]]) -> None:
        self._pool = pool
        self._connect = connect
        self._kept: list[KeptConnection] = []

    def keep_connection(self) -> KeptConnection:
        kept = KeptConnection(self._connect)
        self._kept.append(kept)
        return kept

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        size: int,
        name: str,
        statement_seconds: int = STATEMENT_TIMEOUT_SECONDS,
    ) -> Self:
        settings = {
            "application_name": name,
            "statement_timeout": f"{statement_seconds}s",
            "idle_in_transaction_session_timeout": f"{statement_seconds}s",
            "timezone": "UTC",
            "jit": "off",
        }
        connect = partial(
            asyncpg.connect,
            url,
            timeout=CONNECT_TIMEOUT_SECONDS,
            command_timeout=statement_seconds + 1,
        )
        # Planned once: by itself, the server plans a statement that is given arrays every time.
        kept = {**settings, "plan_cache_mode": "force_generic_plan"}
        with unavailable_when_away(), refused_when_unusable():
            pool = await asyncpg.create_pool(
                url,
                min_size=1,
                max_size=size,
                # Sessions are kept clean by never changing them, so a release needs no round trip.
                reset=_keep_session,
                server_settings=settings,
                **connect.keywords,
            )
        return cls(pool, partial(connect, server_settings=kept))

    async def close(self) -> None:
        for kept in self._kept:
            await kept.close()
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        with unavailable_when_away():
            async with self._pool.acquire(timeout=ACQUIRE_TIMEOUT_SECONDS) as raw:
                try:
                    yield Connection(raw)
                except Refusal:
                    raise
                except BaseException:
                    await _end_statement(raw)
                    raise

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def rows(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        async with self.connection() as connection:
            return await connection.rows(kind, sql, *values)

    async def row(self, kind: type[Row], sql: str, *values: Any) -> Row | None:
        async with self.connection() as connection:
            return await connection.row(kind, sql, *values)

    async def record(self, sql: str, *values: Any) -> Any:
        async with self.connection() as connection:
            return await connection.record(sql, *values)

    async def records(self, sql: str, *values: Any) -> list[Any]:
        async with self.connection() as connection:
            return await connection.records(sql, *values)

    async def value(self, sql: str, *values: Any) -> Any:
        async with self.connection() as connection:
            return await connection.value(sql, *values)

    async def execute(self, sql: str, *values: Any) -> None:
        async with self.connection() as connection:
            await connection.execute(sql, *values)


@asynccontextmanager
async def transaction_of(db: Database | Connection) -> AsyncIterator[Connection]:
    """A transaction of its own; on a connection, a part of the one that is under way there."""
    if isinstance(db, Database):
        async with db.transaction() as connection:
            yield connection
    else:
        async with db.transaction():
            yield db


@contextmanager
def unavailable_when_away() -> Iterator[None]:
    try:
        yield
    except AWAY as error:
        if isinstance(error, ValueError):
            # asyncpg's word for a value that it cannot encode: the caller's bug, not the server's.
            raise
        raise Unavailable from error


class UnusableDatabase(Refusal):
    message = "The database cannot be used."


@contextmanager
def refused_when_unusable() -> Iterator[None]:
    """An address that leads nowhere, or to a database that does not let us in, will not mend."""
    try:
        yield
    except (
        asyncpg.InvalidCatalogNameError,
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InsufficientPrivilegeError,
        asyncpg.exceptions.ClientConfigurationError,
        OverflowError,
    ) as error:
        raise UnusableDatabase(f"The database cannot be used: {error}") from error


async def connect(url: str) -> Any:
    """A single session, for work at start."""
    with unavailable_when_away(), refused_when_unusable():
        return await asyncpg.connect(url, timeout=10)


async def _end_statement(raw: Any) -> None:
    """A statement that was prepared and then not run is still under way for the server.

    Its time would run out on whoever has the session next, and `now()` would be when it began.
    """
    with suppress(Exception):
        await raw.execute("")


async def _keep_session(_connection: Any) -> None:
    return
