"""Copies the rows that logical replication does not copy, and removes copies."""

from manilla.cells.moving import replication
from manilla.cells.moving.tables import APPENDED, COPIED, REPLICATED, key_of
from manilla.kit.database.connections import Connection, Database


async def copy_small_tables(source: Database, target: Connection, merchant_id: int) -> None:
    """Makes the merchant's rows in the small tables equal to those of the first cell."""
    for table in COPIED:
        rows = await source.value(
            f"SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text FROM {table} t"
            f" WHERE {key_of(table)} = $1",
            merchant_id,
        )
        keys, others = await _columns(target, table)
        given = f"jsonb_populate_recordset(NULL::{table}, $1::jsonb)"
        updated = ", ".join(f"{name} = excluded.{name}" for name in others)
        action = f"UPDATE SET {updated}" if others else "NOTHING"
        await target.execute(
            f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {given}"
            f" ON CONFLICT ({', '.join(keys)}) DO {action}",
            rows,
        )
    for table in reversed(COPIED[1:]):
        keys, _ = await _columns(target, table)
        rows = await source.value(
            f"SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text FROM {table} t"
            " WHERE merchant_id = $1",
            merchant_id,
        )
        names = ", ".join(keys)
        await target.execute(
            f"DELETE FROM {table} WHERE merchant_id = $2 AND ({names}) NOT IN"
            f" (SELECT {names} FROM jsonb_populate_recordset(NULL::{table}, $1::jsonb))",
            *(rows, merchant_id),
        )


async def _columns(connection: Connection, table: str) -> tuple[list[str], list[str]]:
    """Returns the columns of the primary key, and the other columns."""
    rows = await connection.records(
        """
        SELECT a.attname AS name, a.attnum = ANY (i.indkey) AS is_key
          FROM pg_attribute a
          JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
         WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped
         ORDER BY a.attnum""",
        table,
    )
    return (
        [row["name"] for row in rows if row["is_key"]],
        [row["name"] for row in rows if not row["is_key"]],
    )


async def remove_copy(connection: Connection, merchant_id: int, *, with_small: bool) -> None:
    """Removes the merchant's rows in a cell in which it does not live.

    Rows that the cell's hash chain covers, and case events from before, stay.
    """
    after = await connection.record(
        "SELECT after_id, after_event FROM merchant_fence WHERE merchant_id = $1", merchant_id
    )
    limits = replication.appended_after(after["after_id"], after["after_event"])
    for table, column in APPENDED.items():
        await connection.execute(
            f"DELETE FROM {table} WHERE merchant_id = $1 AND {column} > $2",
            *(merchant_id, limits[table]),
        )
    for table in REPLICATED:
        await connection.execute(f"DELETE FROM {table} WHERE merchant_id = $1", merchant_id)
    if with_small:
        for table in reversed(COPIED):
            await connection.execute(f"DELETE FROM {table} WHERE {key_of(table)} = $1", merchant_id)


async def raise_numbers(
    source: Database, target: Database, merchant_id: int, posting_margin: int = 0
) -> None:
    """Makes the second cell's new ids higher than the ids that arrive.

    `posting_margin`: how many postings the first cell may still number.
    """
    for table, column in await _numbered(target):
        read, by = _LOOKUP.get(table, (table, column))
        highest = await source.number(
            f"SELECT coalesce(max({by}), 0) FROM {read} WHERE merchant_id = $1", merchant_id
        )
        needed = highest + (posting_margin if table == "posting" else 0)
        sequence = await target.value("SELECT pg_get_serial_sequence($1, $2)", table, column)
        used = await target.number(f"SELECT coalesce(pg_sequence_last_value('{sequence}'), 0)")
        if highest and used < needed:
            async with target.transaction() as connection:
                await connection.execute("SET LOCAL lock_timeout = '2s'")
                # Locks the sequence, so that no transaction draws an id in between.
                await connection.execute(f"ALTER SEQUENCE {sequence} RESTART {needed}")
                # PostgreSQL reports the last id of a sequence only after it was used.
                await connection.value(f"SELECT nextval('{sequence}')")


# Entries are found by their posting's id with an index, postings are not.
_LOOKUP = {"posting": ("entry", "posting_id")}


async def _numbered(db: Database) -> list[tuple[str, str]]:
    rows = await db.records(
        """
        SELECT c.relname AS table, a.attname AS column
          FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
         WHERE a.attidentity <> '' AND c.relnamespace = 'public'::regnamespace
           AND c.relname = ANY ($1::text[])""",
        [*APPENDED, *REPLICATED],
    )
    return [(row["table"], row["column"]) for row in rows]


async def begin_epoch(source: Database, target: Database) -> None:
    """Makes the second cell's next events come after all events of the first cell.

    Events are ordered by epoch and transaction number. Inserts wait for this transaction, so no
    event gets the old epoch and a later transaction number.
    """
    first = await source.number("SELECT current_event_epoch()")
    async with target.transaction() as connection:
        await connection.execute("SET LOCAL lock_timeout = '2s'")
        await connection.execute("LOCK TABLE notification IN SHARE ROW EXCLUSIVE MODE")
        await connection.execute(
            """
            INSERT INTO event_epoch (number, system_identifier)
            SELECT $1 + 1, system_identifier::text FROM pg_control_system()
             WHERE current_event_epoch() <= $1""",
            first,
        )
