"""Database connections are returned to the pool in a clean state."""

import asyncio
from functools import partial

import asyncpg
import pytest

from manilla.kit.db import Database
from manilla.settings import Settings
from tests.waiting import until


async def test_a_value_that_cannot_be_encoded_leaves_no_open_statement(
    settings: Settings, db: Database
) -> None:
    """A statement that stayed prepared would time out for the connection's next user."""
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
