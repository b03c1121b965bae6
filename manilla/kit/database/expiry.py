"""Deletes rows that have reached an age.

Each batch is a short SQL statement that reads an index, so the SQL timeout is long enough for a
table of any size. A BRIN index would not do: its ranges keep the oldest time that they ever had,
while new rows reuse the space of deleted rows, so in the end every range looks old.
"""

from datetime import timedelta

from manilla.kit.database.connections import Database

ROWS_MAX = 5_000  # per SQL statement


def statement(table: str, time: str) -> str:
    return f"""
        WITH deleted AS (
            DELETE FROM {table} WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM {table} WHERE {time} < now() - $1::interval
                 ORDER BY {time} LIMIT $2))
            RETURNING true)
        SELECT count(*) = $2 FROM deleted"""


async def delete_older(db: Database, table: str, time: str, age: timedelta) -> None:
    """Deletes the rows whose column `time`, which must have a B-tree index, is older than `age`."""
    while await db.value(statement(table, time), age, ROWS_MAX):
        pass
