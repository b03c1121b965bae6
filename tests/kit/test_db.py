"""Connections return to the pool in a clean state, and rows are converted to structs."""

import asyncio
from functools import partial

import asyncpg
import msgspec
import pytest

from manilla.kit.database.connections import BY_KEY_SESSIONS, Database
from manilla.kit.environment import Environment
from manilla.settings import Settings
from tests.support.waiting import until


async def test_a_value_that_cannot_be_encoded_leaves_no_open_statement(
    settings: Settings, db: Database
) -> None:
    """If the SQL statement stayed open, the connection's next user would get a timeout."""
    one = await Database.open(settings.database_url, size=1, name="a test of sessions")
    try:
        with pytest.raises(asyncpg.DataError):
            await one.value("SELECT $1::integer", "no number")
        state = "SELECT state FROM pg_stat_activity WHERE application_name = 'a test of sessions'"
        assert await db.value(state) == "idle"
    finally:
        await one.close()


async def test_a_caller_that_stops_waiting_leaves_a_usable_session(
    settings: Settings, db: Database
) -> None:
    one = await Database.open(settings.database_url, size=1, name="tests")
    try:
        sleeping = asyncio.create_task(one.execute("SELECT pg_sleep(600)"))
        is_asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        await until(partial(db.has_row, is_asleep))
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        assert await one.value("SELECT 1") == 1
        assert not await db.has_row(is_asleep)
    finally:
        await one.close()


class _Owned(msgspec.Struct, frozen=True):
    merchant_id: int
    environment: Environment
    other: Environment | None
    third: Environment | None = None


OWNED = "SELECT 1::bigint AS merchant_id, 'sandbox' AS environment, $1::text AS other"


@pytest.mark.parametrize("other", [Environment.PRODUCTION, None])
async def test_an_enum_of_a_struct_is_an_enum_in_its_rows(
    db: Database, other: Environment | None
) -> None:
    expected = _Owned(1, Environment.SANDBOX, other)
    kept = db.keep_connection()
    found = await db.row(_Owned, OWNED, other)
    for each in (
        found,
        *await db.rows(_Owned, OWNED, other),
        *await kept.rows(_Owned, OWNED, other),
    ):
        assert each == expected
        assert each is not None
        assert (type(each.environment), type(each.other)) == (Environment, type(other))


async def test_a_row_with_an_unknown_value_of_an_enum_is_not_read(db: Database) -> None:
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'staging'"):
        await db.row(_Owned, OWNED, "staging")


async def test_statements_by_key_run_at_the_same_time_and_wait_for_a_free_session(
    db: Database,
) -> None:
    sessions = await asyncio.gather(
        *(db.records_by_key("SELECT pg_backend_pid() AS pid") for _ in range(3 * BY_KEY_SESSIONS))
    )
    pids = {record["pid"] for [record] in sessions}
    assert 1 < len(pids) <= BY_KEY_SESSIONS
    # The session that was used last is used again.
    [again] = await db.records_by_key("SELECT pg_backend_pid() AS pid")
    assert again["pid"] in pids


async def test_a_failed_statement_by_key_leaves_its_session_to_others(db: Database) -> None:
    for _ in range(BY_KEY_SESSIONS + 1):
        with pytest.raises(asyncpg.DivisionByZeroError):
            await db.records_by_key("SELECT 1 / $1::integer", 0)
    assert [record["one"] for record in await db.records_by_key("SELECT 1 AS one")] == [1]
