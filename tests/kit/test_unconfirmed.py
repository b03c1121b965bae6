"""While no standby confirms commits, a process abandons only a few sessions and can still read."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from manilla.kit import deadline
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.errors import Unavailable
from manilla.settings import Settings
from tests.support.limits import limited as limits
from tests.support.waiting import until

SIZE = 3
NAME = "a test of commits"


@pytest.fixture
async def operator(cluster: Cluster) -> AsyncIterator[Database]:
    """Connects as the superuser, whose commits do not wait for the standby."""
    db = await Database.open(cluster.url(postgres.SUPERUSER, "postgres"), size=1, name="operator")
    yield db
    await _wait_for_standby(db, "")
    await db.close()


@pytest.fixture
async def limited(settings: Settings) -> AsyncIterator[Database]:
    db = await Database.open(settings.database_url, size=SIZE, name=NAME)
    yield db
    await db.close()


async def _wait_for_standby(operator: Database, name: str) -> None:
    """Makes commits wait for a standby with this name, which does not exist."""
    await operator.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    await operator.value("SELECT pg_reload_conf()")

    async def is_set() -> bool:
        return bool(await operator.value("SHOW synchronous_standby_names") == name)

    await until(is_set)


async def _write(db: Database) -> None:
    async with db.transaction() as connection:
        await connection.value("SELECT pg_logical_emit_message(true, 'test', 'x')")


async def _try_to_write(db: Database) -> str:
    try:
        with deadline.limited(0.2):
            await _write(db)
    except Unavailable as unavailable:
        return unavailable.facts["cause"]
    return "confirmed"


async def test_sessions_are_bounded_and_reads_work_while_no_standby_confirms(
    operator: Database, limited: Database
) -> None:
    async def sessions() -> int:
        return await operator.number(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", NAME
        )

    async def are_confirmed() -> bool:
        return not limited.unconfirmed.are_waiting

    await _wait_for_standby(operator, "nobody")
    # PostgreSQL still confirms commits until its checkpointer has read the new setting.
    while not limited.unconfirmed.are_waiting:
        await asyncio.gather(*(_try_to_write(limited) for _ in range(4 * SIZE)))
    before = await sessions()
    for _ in range(10 * SIZE):
        assert await _try_to_write(limited) == "no standby confirms commits"
    with pytest.raises(Unavailable):
        await limited.execute("DELETE FROM rate_window WHERE false")
    assert await limited.value("SELECT 1") == 1
    assert await sessions() <= before + 1
    await _wait_for_standby(operator, "")
    await until(are_confirmed)
    await _write(limited)
    assert await sessions() <= SIZE


async def test_a_late_statement_alone_does_not_refuse_others(limited: Database) -> None:
    async with limited.transaction() as connection:
        await connection.value("SELECT pg_advisory_xact_lock(71)")
        with pytest.raises(Unavailable), deadline.limited(0.05):
            await limited.value("SELECT pg_advisory_xact_lock(71)")
        await _write(limited)


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_commit_that_takes_too_long_is_not_canceled(
    operator: Database, settings: Settings, is_kept: bool
) -> None:
    """A canceled commit would take effect without the standby's confirmation."""
    with limits(statement_grace_seconds=0.1):
        hasty = await Database.open(settings.database_url, size=1, name=NAME, statement_seconds=1)
    await _wait_for_standby(operator, "nobody")
    kept = hasty.keep_connection(writes=True)

    async def is_rejected() -> bool:
        try:
            if is_kept:
                await kept.records("SELECT pg_logical_emit_message(true, 'test', 'x')")
            else:
                await _write(hasty)
        except Unavailable:
            return True
        return False

    async def is_waiting() -> bool:
        return hasty.unconfirmed.are_waiting

    await until(is_rejected)  # as soon as the checkpointer has read the new setting
    await until(is_waiting)  # The abandoned session still waits for the standby's confirmation.
    await hasty.close()
