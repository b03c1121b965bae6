"""If a database session ends during an SQL statement, each asyncpg error becomes `Unavailable`."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any

import asyncpg
import pytest

from manilla.kit import deadline
from manilla.kit.database import unavailable
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.settings import Settings


class EndingAt:
    """Runs a coroutine, and ends all database sessions before or after one of its steps."""

    def __init__(self, work: Coroutine[Any, Any, None], at: int, end: Callable[[], None]) -> None:
        self._work, self._at, self._end = work, at, end
        self._moments = itertools.count()
        self.has_ended = False

    def _pass_moment(self) -> None:
        if next(self._moments) == self._at:
            self.has_ended = True
            self._end()

    def __await__(self) -> Generator[Any, Any, None]:
        advance = partial(self._work.send, None)
        while True:
            self._pass_moment()
            try:
                future = advance()
            except StopIteration:
                return
            self._pass_moment()
            try:
                yield future
                advance = partial(self._work.send, None)
            except BaseException as error:
                advance = partial(self._work.throw, error)


@pytest.fixture
async def one(settings: Settings) -> AsyncIterator[Database]:
    db = await Database.open(settings.database_url, size=1, name="tests")
    yield db
    await db.close()


def _sessions(db: Database) -> list[Any]:
    used = [holder._con for holder in db._pool._holders] + [kept._raw for kept in db._kept]
    return [raw for raw in used if raw is not None and not raw.is_closed()]


def _terminate(db: Database) -> None:
    for raw in _sessions(db):
        raw.terminate()


def _disconnect(db: Database) -> None:
    for raw in _sessions(db):
        raw._transport.abort()


async def _read(db: Database) -> None:
    # Each query has a new text, so that asyncpg must prepare it first.
    await db.value(f"SELECT $1::int + {next(_numbers)}", 1)


async def _write(db: Database) -> None:
    async with db.transaction() as connection:
        await connection.execute(f"CREATE TEMP TABLE t{next(_numbers)} (id int) ON COMMIT DROP")
        await connection.records(f"SELECT {next(_numbers)} AS id, $1::int AS other", 1)


async def _read_kept(db: Database) -> None:
    kept = db._kept[0] if db._kept else db.keep_connection()
    await kept.records(f"SELECT $1::int + {next(_numbers)}", 1)


_numbers = itertools.count()


async def _until_served(
    db: Database, work: Callable[[Database], Coroutine[Any, Any, None]]
) -> None:
    """Repeats the work until it succeeds, because the pool may return disconnected sessions."""
    while True:
        try:
            return await work(db)
        except Unavailable:
            continue


@pytest.mark.parametrize("end", [_terminate, _disconnect])
@pytest.mark.parametrize("work", [_read, _write, _read_kept])
async def test_a_session_that_ends_at_any_step_means_unavailable(
    one: Database,
    work: Callable[[Database], Coroutine[Any, Any, None]],
    end: Callable[[Database], None],
) -> None:
    failed = 0
    for moment in itertools.count():
        await _until_served(one, work)
        running = EndingAt(work(one), moment, lambda: end(one))
        try:
            await running
        except Unavailable:
            failed += 1
        if not running.has_ended:
            break
    assert failed > 1


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT in a read-only transaction"),
        asyncpg.FeatureNotSupportedError(
            "cannot access temporary or unlogged relations during recovery"
        ),
        asyncpg.TooManyConnectionsError("sorry, too many clients already"),
        asyncpg.AdminShutdownError("terminating connection"),
        ConnectionResetError(),
        TimeoutError(),
    ],
)
def test_errors_of_a_lost_database_mean_unavailable(error: Exception) -> None:
    assert unavailable.means_unavailable(error)


@pytest.mark.parametrize(
    "error", [AttributeError(), KeyError(), asyncpg.UniqueViolationError(), asyncpg.DataError()]
)
def test_a_bug_does_not_mean_unavailable(error: Exception) -> None:
    assert not unavailable.means_unavailable(error)


async def test_the_cause_is_the_first_fault_and_not_the_failed_rollback(one: Database) -> None:
    with pytest.raises(Unavailable) as raised:
        async with one.transaction() as connection:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert "terminating connection" in raised.value.facts["cause"]


async def test_the_cause_of_a_late_request_is_its_time_limit(
    one: Database, settings: Settings
) -> None:
    lock = "SELECT pg_advisory_xact_lock(70)"
    async with one.transaction() as connection:
        await connection.execute(lock)
        other = await Database.open(settings.database_url, size=1, name="tests")
        with pytest.raises(Unavailable) as raised, deadline.limited(0.05):
            await other.execute(lock)
    assert raised.value.facts["cause"] == deadline.USED_UP
    await other.close()


async def test_a_shared_task_that_fails_after_all_have_left_is_not_logged_as_unretrieved() -> None:
    loop, problems = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: problems.append(context))
    release = asyncio.Event()

    async def fail() -> None:
        await release.wait()
        raise Unavailable

    shared = deadline.start_detached(fail())
    waiting: Awaitable[None] = deadline.wait_for(shared)
    with pytest.raises(Unavailable), deadline.limited(0.01):
        await waiting
    release.set()
    await asyncio.wait({shared})
    await asyncio.sleep(0)
    del shared, waiting
    loop.set_exception_handler(None)
    assert problems == []
