"""Sets planner statistics for tables that are new, restored, or were analyzed while empty.

Sessions keep their plans. A plan that is based on missing statistics may read all rows of a
merchant instead of using the full key. The plan stays in use until the first automatic ANALYZE.
"""

from typing import Any

# If a table with fewer than ten pages has no row count, the planner assumes ten pages.
# The planner then uses the full key. With the row count of a nearly empty table, it might not.
PAGES_MIN = 10


async def seed(connection: Any) -> None:
    """Adds missing planner statistics. Leaves useful statistics unchanged."""
    for table in await _tables(connection):
        await _seed_row_count(connection, table)
        if table["is_keyed_by_merchant"] and table["indexes"] > 1:
            await _seed_merchants(connection, table)


async def _tables(connection: Any) -> list[Any]:
    """Returns all tables, with the number of their B-tree indexes."""
    tables: list[Any] = await connection.fetch(
        """
        SELECT t.relname AS name, t.reltuples AS row_count,
               pg_relation_size(t.oid) / current_setting('block_size')::integer AS pages,
               (SELECT count(*) FROM pg_index x
                  JOIN pg_class i ON i.oid = x.indexrelid
                  JOIN pg_am m ON m.oid = i.relam AND m.amname = 'btree'
                 WHERE x.indrelid = t.oid) AS indexes,
               EXISTS (SELECT FROM pg_index x
                  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
                 WHERE x.indrelid = t.oid AND x.indisprimary AND a.attname = 'merchant_id')
               AS is_keyed_by_merchant,
               (SELECT coalesce(a.attoptions @> '{n_distinct=1}', false) FROM pg_attribute a
                 WHERE a.attrelid = t.oid AND a.attname = 'merchant_id') AS is_pinned,
               EXISTS (SELECT FROM pg_stats s
                        WHERE s.schemaname = 'public' AND s.tablename = t.relname
                          AND s.attname = 'merchant_id') AS has_merchants
          FROM pg_class t
         WHERE t.relnamespace = 'public'::regnamespace AND t.relkind = 'r'
         ORDER BY t.relname"""
    )
    return tables


async def _seed_row_count(connection: Any, table: Any) -> None:
    if table["pages"] >= PAGES_MIN:
        if table["row_count"] <= 0:
            await connection.execute(f"ANALYZE {table['name']}")
    elif table["row_count"] >= 0:
        await connection.execute("SELECT pg_clear_relation_stats('public', $1)", table["name"])


async def _seed_merchants(connection: Any, table: Any) -> None:
    """Makes the planner assume a single merchant, because plans must suit the largest merchant.

    A merchant may own most of a table. With this assumption, no plan uses the merchant id alone if
    the full key is available. The column option also applies to later ANALYZE runs.
    """
    name = table["name"]
    if not table["is_pinned"]:
        await connection.execute(f"ALTER TABLE {name} ALTER merchant_id SET (n_distinct = 1)")
    if not table["is_pinned"] or not table["has_merchants"]:
        await connection.execute(
            """
            SELECT pg_restore_attribute_stats(
                   'schemaname', 'public', 'relname', $1::text, 'attname', 'merchant_id',
                   'inherited', false, 'null_frac', 0::real, 'avg_width', 8,
                   'n_distinct', 1::real)""",
            name,
        )
