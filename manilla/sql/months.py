"""Creates and drops partitions of the tables that are partitioned by month.

Inserting a row fails if its month has no partition, so workers create partitions ahead.
"""

from datetime import datetime

from manilla.kit.database.connections import Database

MONTHS_AHEAD = 3


async def create(db: Database) -> None:
    """Creates the partitions of the next months, unless they exist."""
    await db.execute("SELECT months_create($1)", MONTHS_AHEAD)


async def days_ahead(db: Database) -> dict[str, float]:
    """Returns, for each table, in how many days its last partition ends."""
    rows = await db.records(
        """
        SELECT parent, extract(epoch FROM max(range_end) - now())::float8 / 86400 AS days
          FROM months() GROUP BY parent"""
    )
    return {row["parent"]: row["days"] for row in rows}


async def drop(db: Database, table: str, before: datetime) -> None:
    """Drops the partitions whose rows are all older than the time."""
    await db.execute("SELECT months_drop($1, $2)", table, before)
