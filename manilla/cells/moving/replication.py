"""Copies a merchant's rows with PostgreSQL's logical replication.

The first cell has two publications with row filters and one replication slot. The second cell has
one subscription. Each name contains the merchant's number. A slot that is left behind would keep
the write-ahead log until the disk is full, so every end of a move drops it.
"""

import asyncio
import time

import asyncpg

from manilla.cells.moving.tables import APPENDED, REPLICATED
from manilla.kit.db import Database
from manilla.kit.errors import Refusal, Unavailable

POLL_SECONDS = 0.05
STOP_SECONDS = 60
ERRORS_MAX = 5


class CopyFailed(Refusal):
    message = (
        "PostgreSQL no longer copies the merchant's rows. The reason is in the log of the "
        "second cell's database. Fix it and continue with --continue, or take the move back with "
        "--abort."
    )


def name_of(merchant_id: int) -> str:
    """Returns the name of the slot, the subscription and the publication."""
    return f"manilla_move_{merchant_id}"


def _appended(merchant_id: int) -> str:
    return f"{name_of(merchant_id)}_appended"


async def publish(source: Database, merchant_id: int, after_id: int, after_event: int) -> None:
    """Creates the publications and the slot, unless they exist."""
    of_merchant = f"merchant_id = {merchant_id}"
    after = {"posting": after_id, "entry": after_id, "case_event": after_event}
    tables = ", ".join(f"{table} WHERE ({of_merchant})" for table in REPLICATED)
    appended = ", ".join(
        f"{table} WHERE ({of_merchant} AND {column} > {after[table]})"
        for table, column in APPENDED.items()
    )
    for name, listed, kinds in (
        (name_of(merchant_id), tables, "insert, update, delete"),
        (_appended(merchant_id), appended, "insert"),
    ):
        if not await source.has_row("SELECT true FROM pg_publication WHERE pubname = $1", name):
            await source.execute(
                f"CREATE PUBLICATION {name} FOR TABLE {listed} WITH (publish = '{kinds}')"
            )
    if not await has_slot(source, merchant_id):
        await source.execute(
            "SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name_of(merchant_id)
        )


# The slot of the subscription ($1), and the slots with which it copies tables ($2: its oid).
_SLOT = """
    database = current_database()
    AND (slot_name = $1 OR starts_with(slot_name, 'pg_' || $2::bigint || '_sync_'))"""


async def has_slot(source: Database, merchant_id: int, oid: int | None = None) -> bool:
    return await source.has_row(
        f"SELECT true FROM pg_replication_slots WHERE {_SLOT}", name_of(merchant_id), oid
    )


async def subscribe(target: Database, merchant_id: int, source_url: str) -> None:
    """Creates the subscription, unless it exists. PostgreSQL then copies the rows."""
    name = name_of(merchant_id)
    if await _is_subscribed(target, merchant_id):
        await target.execute(f"ALTER SUBSCRIPTION {name} ENABLE")
        return
    url = source_url.replace("'", "''")
    try:
        await _create_subscription(target, merchant_id, url)
    except (asyncpg.PostgresError, Unavailable) as error:
        cause = error.facts["cause"] if isinstance(error, Unavailable) else str(error)
        raise CopyFailed(
            f"The second cell's PostgreSQL cannot read the first cell's database: {cause}"
        ) from error


async def _create_subscription(target: Database, merchant_id: int, url: str) -> None:
    name = name_of(merchant_id)
    await target.execute(
        f"CREATE SUBSCRIPTION {name} CONNECTION '{url}'"
        f" PUBLICATION {name}, {_appended(merchant_id)}"
        f" WITH (create_slot = false, slot_name = '{name}', copy_data = true,"
        " streaming = off, synchronous_commit = 'on')"
    )


async def _is_subscribed(target: Database, merchant_id: int) -> bool:
    return await target.has_row(
        f"SELECT true FROM pg_subscription WHERE {_SUBSCRIPTION}", merchant_id
    )


_SUBSCRIPTION = (
    "subname = 'manilla_move_' || $1::bigint"
    " AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def wait_for_copy(target: Database, merchant_id: int) -> None:
    """Waits until all tables are copied, which can take hours."""
    errors = await _errors(target, merchant_id)
    while True:
        row = await target.record(
            f"""
            SELECT count(r.srrelid) AS tables,
                   count(*) FILTER (WHERE r.srsubstate = 'r') AS ready
              FROM pg_subscription s JOIN pg_subscription_rel r ON r.srsubid = s.oid
             WHERE {_SUBSCRIPTION}""",
            merchant_id,
        )
        if row["tables"] and row["tables"] == row["ready"]:
            return
        await _check(target, merchant_id, errors)
        await asyncio.sleep(POLL_SECONDS)


async def wait_for_changes(
    source: Database, target: Database, merchant_id: int, marker: str
) -> None:
    """Waits until the second cell has all changes that were committed in the first until now.

    Changes arrive in the order of their commits, so all of them have arrived when the marker has.
    """
    await source.execute(
        "INSERT INTO move_marker (merchant_id, move) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        *(merchant_id, marker),
    )
    errors = await _errors(target, merchant_id)
    while not await target.has_row(
        "SELECT true FROM move_marker WHERE merchant_id = $1 AND move = $2", merchant_id, marker
    ):
        await _check(target, merchant_id, errors)
        await asyncio.sleep(POLL_SECONDS / 5)


async def _check(target: Database, merchant_id: int, errors: int) -> None:
    """Raises an error if the copy fails again and again. PostgreSQL repeats what failed."""
    if await _errors(target, merchant_id) >= errors + ERRORS_MAX:
        raise CopyFailed


async def _errors(target: Database, merchant_id: int) -> int:
    found = await target.value(
        f"""
        SELECT coalesce(apply_error_count + sync_error_count, 0)
          FROM pg_subscription s LEFT JOIN pg_stat_subscription_stats t ON t.subid = s.oid
         WHERE s.{_SUBSCRIPTION}""",
        merchant_id,
    )
    if found is None:
        raise CopyFailed("The subscription is gone. Take the move back with --abort.")
    return int(found)


async def subscription_oid(target: Database, merchant_id: int) -> int | None:
    """Returns the subscription's oid, after which PostgreSQL names the slots of its copies."""
    found: int | None = await target.value(
        f"SELECT oid::bigint FROM pg_subscription WHERE {_SUBSCRIPTION}", merchant_id
    )
    return found


async def unsubscribe(target: Database, merchant_id: int) -> None:
    """Drops the subscription, and the slots in the first cell if its database can be reached."""
    if not await _is_subscribed(target, merchant_id):
        return
    name = name_of(merchant_id)
    await target.execute(f"ALTER SUBSCRIPTION {name} DISABLE")
    try:
        await target.execute(f"DROP SUBSCRIPTION {name}")
    except (asyncpg.PostgresError, Unavailable):
        # The first cell's database cannot be reached from there. `unpublish` drops the slots.
        await target.execute(f"ALTER SUBSCRIPTION {name} SET (slot_name = NONE)")
        await target.execute(f"DROP SUBSCRIPTION {name}")


async def unpublish(source: Database, merchant_id: int, oid: int | None) -> None:
    """Drops the slots and the publications. `oid`: the subscription's, or None if unknown."""
    ends = time.monotonic() + STOP_SECONDS
    while await has_slot(source, merchant_id, oid):
        # The other cell's server can still be connected for a moment, or if its host is away.
        await source.execute(
            f"""
            SELECT CASE WHEN active_pid IS NULL THEN pg_drop_replication_slot(slot_name)::text
                        ELSE pg_terminate_backend(active_pid)::text END
              FROM pg_replication_slots WHERE {_SLOT}""",
            *(name_of(merchant_id), oid),
        )
        if time.monotonic() > ends:
            raise CopyFailed(f"The replication slot {name_of(merchant_id)} cannot be dropped.")
        await asyncio.sleep(POLL_SECONDS)
    for name in (name_of(merchant_id), _appended(merchant_id)):
        await source.execute(f"DROP PUBLICATION IF EXISTS {name}")
    await source.execute("DELETE FROM move_marker WHERE merchant_id = $1", merchant_id)
