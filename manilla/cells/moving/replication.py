"""Copies a merchant's rows with PostgreSQL's logical replication.

The first cell has two publications with row filters and one replication slot. The second cell has
one subscription. Each name contains the merchant's number. A slot that is left behind would keep
the write-ahead log until the disk is full, so every end of a move drops it.
"""

import asyncio
import contextlib
import time

import asyncpg

from manilla.cells.moving.tables import APPENDED, REPLICATED
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal, Unavailable

POLL_SECONDS = 0.05
STOP_SECONDS = 60
MARKER_SECONDS = 1
ERRORS_MAX = 5
# If the URL names several hosts, libpq would also connect to a standby, and wait long for a host
# that is away.
_URL_DEFAULTS = {"target_session_attrs": "read-write", "connect_timeout": "5"}


class CopyFailed(Refusal):
    message = (
        "PostgreSQL no longer copies the merchant's rows. The reason is in the log of the "
        "second cell's database. Fix it and continue with --continue, or take the move back with "
        "--abort."
    )


class SlotLost(CopyFailed):
    message = (
        "The first cell's database no longer has the replication slot with which the rows are"
        " copied. If the database has failed over, the new primary did not have the slot yet. Take"
        " the move back with --abort, and start it again."
    )


def name_of(merchant_id: int) -> str:
    """Returns the name of the slot, the subscription and the publication."""
    return f"manilla_move_{merchant_id}"


def _appended(merchant_id: int) -> str:
    return f"{name_of(merchant_id)}_appended"


def appended_after(after_id: int, after_event: int) -> dict[str, int]:
    """Returns the last row that the second cell already has, for each table in `APPENDED`."""
    return {"posting": after_id, "entry": after_id, "case_event": after_event}


async def publish(source: Database, merchant_id: int, after_id: int, after_event: int) -> None:
    """Creates the publications and the slot, unless they exist."""
    of_merchant = f"merchant_id = {merchant_id}"
    after = appended_after(after_id, after_event)
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
        # With `failover`, standbys that synchronize slots keep a copy of the slot.
        await source.execute(
            "SELECT pg_create_logical_replication_slot($1, 'pgoutput', failover => true)",
            name_of(merchant_id),
        )


# The slot of the subscription ($1), and the slots with which it copies tables ($2: its oid).
_SLOT = """
    database = current_database()
    AND (slot_name = $1 OR starts_with(slot_name, 'pg_' || $2::bigint || '_sync_'))"""


async def has_slot(source: Database, merchant_id: int, oid: int | None = None) -> bool:
    return await source.has_row(
        f"SELECT true FROM pg_replication_slots WHERE {_SLOT}", name_of(merchant_id), oid
    )


def libpq_url(url: str) -> str:
    """Returns the URL with which the second cell's PostgreSQL finds the first cell's primary."""
    address, _, query = url.partition("?")
    options = query.split("&") if query else []
    given = {option.partition("=")[0] for option in options}
    added = [f"{name}={value}" for name, value in _URL_DEFAULTS.items() if name not in given]
    return f"{address}?{'&'.join(options + added)}"


async def subscribe(target: Database, merchant_id: int, source_url: str) -> None:
    """Creates the subscription. PostgreSQL then copies the rows."""
    url = libpq_url(source_url).replace("'", "''")
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
        " failover = true, streaming = off, synchronous_commit = 'on')"
    )


async def resume(target: Database, merchant_id: int) -> None:
    await target.execute(f"ALTER SUBSCRIPTION {name_of(merchant_id)} ENABLE")


async def is_subscribed(target: Database, merchant_id: int) -> bool:
    return await target.has_row(
        f"SELECT true FROM pg_subscription WHERE {_SUBSCRIPTION}", merchant_id
    )


_SUBSCRIPTION = (
    "subname = 'manilla_move_' || $1::bigint"
    " AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


async def wait_for_copy(source: Database, target: Database, merchant_id: int) -> None:
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
        await _check(source, target, merchant_id, errors)
        await asyncio.sleep(POLL_SECONDS)


async def wait_for_changes(
    source: Database, target: Database, merchant_id: int, marker: str
) -> None:
    """Waits until the second cell has all changes that were committed in the first until now.

    Changes arrive in the order of their commits, so all of them have arrived when a marker has.
    After a failover of the first cell, PostgreSQL may skip a marker, if the second cell was ahead.
    """
    errors = await _errors(target, merchant_id)
    inserted_at = float("-inf")
    number = 0
    while not await target.has_row(
        "SELECT true FROM move_marker WHERE merchant_id = $1 AND starts_with(move, $2)",
        *(merchant_id, marker),
    ):
        if time.monotonic() - inserted_at >= MARKER_SECONDS:
            inserted_at, number = time.monotonic(), number + 1
            await source.execute(
                "INSERT INTO move_marker (merchant_id, move) VALUES ($1, $2)"
                " ON CONFLICT DO NOTHING",
                *(merchant_id, f"{marker}:{number}"),
            )
        await _check(source, target, merchant_id, errors)
        await asyncio.sleep(POLL_SECONDS / 5)


async def _check(source: Database, target: Database, merchant_id: int, errors: int) -> None:
    """Raises an error if the copy cannot continue. PostgreSQL retries a copy that failed."""
    if await _errors(target, merchant_id) >= errors + ERRORS_MAX:
        raise CopyFailed
    # While the first cell's database fails over, the second cell waits for it.
    with contextlib.suppress(Unavailable):
        await _check_slots(source, target, merchant_id)


async def _check_slots(source: Database, target: Database, merchant_id: int) -> None:
    """Raises an error if the new primary lacks a slot: PostgreSQL would retry without end."""
    wanted = await _slots(target, merchant_id)
    found = await _names(
        source,
        # The name of a table's slot ends with the server's system identifier.
        r"SELECT regexp_replace(slot_name, '^(pg_\d+_sync_\d+_)\d+$', '\1') AS name"
        " FROM pg_replication_slots"
        " WHERE database = current_database() AND invalidation_reason IS NULL",
    )
    if missing := wanted - found:
        # A process that has copied a table drops the slot before it commits the table's state.
        busy = await _names(
            target,
            f"SELECT {_TABLE_SLOT.format('subid', 'relid')} AS name FROM pg_stat_subscription"
            " WHERE relid IS NOT NULL AND pid IS NOT NULL",
        )
        if (missing & await _slots(target, merchant_id)) - busy:
            raise SlotLost


_TABLE_SLOT = "format('pg_%s_sync_%s_', {}, {})"


async def _slots(target: Database, merchant_id: int) -> set[str]:
    """Returns the slots without which the copy cannot continue.

    PostgreSQL copies a table again if it has lost the table's slot, until the rows are copied.
    """
    tables = await _names(
        target,
        f"""
        SELECT {_TABLE_SLOT.format("s.oid", "r.srrelid")} AS name
          FROM pg_subscription s JOIN pg_subscription_rel r ON r.srsubid = s.oid
         WHERE {_SUBSCRIPTION} AND r.srsubstate = 'f'""",
        merchant_id,
    )
    return {name_of(merchant_id), *tables}


async def _names(db: Database, sql: str, *values: int) -> set[str]:
    return {row["name"] for row in await db.records(sql, *values)}


async def timeline(db: Database) -> str:
    """Returns the timeline of a server. A standby that is promoted starts another timeline."""
    found: str = await db.value("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)")
    return found


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
    if not await is_subscribed(target, merchant_id):
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
