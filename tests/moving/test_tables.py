"""A move handles each table with rows of merchants."""

from manilla.cells.moving.tables import APPENDED, COPIED, REPLICATED
from manilla.kit.database.connections import Database
from manilla.sql.tables import TABLES

LISTED = [table.name for table in TABLES if table.move is not None]


async def test_a_move_handles_every_table_with_rows_of_merchants(db: Database) -> None:
    rows = await db.records(
        """
        SELECT c.relname AS name FROM pg_class c
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'merchant_id'
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND NOT c.relispartition"""
    )
    assert sorted(LISTED) == sorted([*(row["name"] for row in rows), "merchant"])


async def test_row_filters_apply_to_updates_and_deletions(db: Database) -> None:
    """PostgreSQL rejects changes of rows whose replica identity lacks the filter's column."""
    rows = await db.records(
        """
        SELECT c.relname AS name FROM pg_class c
          JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'merchant_id'
               AND a.attnum = ANY (i.indkey)
         WHERE c.relname = ANY ($1::text[]) AND c.relreplident = 'd'""",
        list(REPLICATED),
    )
    assert sorted(row["name"] for row in rows) == sorted(REPLICATED)


async def test_children_of_moved_merchants_without_a_number_are_known(db: Database) -> None:
    """A table that refers to a merchant's row without the merchant's number needs its own rule."""
    rows = await db.records(
        """
        SELECT DISTINCT conrelid::regclass::text AS name FROM pg_constraint
         WHERE contype = 'f' AND confrelid::regclass::text = ANY ($1::text[])""",
        [*REPLICATED, *APPENDED, *COPIED],
    )
    assert {row["name"] for row in rows} <= set(LISTED)
