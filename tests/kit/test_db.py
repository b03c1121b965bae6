"""Database connections are returned to the pool in a clean state."""

import asyncio

import asyncpg
import pytest

from manilla.kit.db import Database
from manilla.settings import Settings


async def test_a_value_that_cannot_be_encoded_leaves_no_open_statement(
    settings: Settings, db: Database
) -> None:
    """A statement that stayed prepared would time out for the next user of the connection."""
    one = await Database.open(settings.database_url, size=1, name="a test of sessions")
    try:
        with pytest.raises(asyncpg.DataError):
            await one.value("SELECT $1::integer", "no number")
        state = "SELECT state FROM pg_stat_activity WHERE application_name = 'a test of sessions'"
        assert await db.value(state) == "idle"
    finally:
        await one.close()


async def test_a_caller_that_stops_waiting_leaves_a_usable_session(settings: Settings) -> None:
    one = await Database.open(settings.database_url, size=1, name="tests")
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await one.execute("SELECT pg_sleep(30)")
        assert await one.value("SELECT now() > clock_timestamp() - interval '1 second'")
    finally:
        await one.close()
