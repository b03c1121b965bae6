"""Pages of one owner's rows in the order of an index, in a single query each.

A page continues after the key of the last one, so rows that are added meanwhile cause neither
repeated nor skipped rows. A query reads at most LOOK_MAX rows: if few of them match the filters,
the page has fewer rows than requested, and the next page continues from there.
"""

from typing import Any

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.listing import LOOK_MAX, Conditions


class KeysetQuery(msgspec.Struct, frozen=True):
    table: str
    columns: str  # column list, which must include the key and every filtered column
    # The columns of the index, without those that `whose` compares with one value.
    key: tuple[str, ...]
    whose: Conditions  # conditions that the index covers: the owner, and bounds of the key
    # Other conditions: each `{}` is replaced with the placeholder of one value.
    filters: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    is_ascending: bool = False
    # What the records contain, which must include the key. It is computed only for them, and can
    # refer to the table's row as `looked`.
    shown: str = "*"


class KeysetPage(msgspec.Struct, frozen=True):
    records: list[Any]
    next: tuple[Any, ...] | None  # the key after which the next page starts; None: the last page


async def page(
    db: Database | Connection, query: KeysetQuery, after: tuple[Any, ...] | None, limit: int
) -> KeysetPage:
    looked, order = _looked(query, after), _order(query)
    filters = [sql.format(*map(looked.value, values)) for sql, values in query.filters]
    records = await db.records(
        f"""
        SELECT {query.shown} FROM (
            SELECT {query.columns} FROM {query.table}
             WHERE {looked.sql} ORDER BY {order} LIMIT {LOOK_MAX}) AS looked
         WHERE {" AND ".join(filters) or "true"} ORDER BY {order} LIMIT {limit + 1}""",
        *looked.values,
    )
    if len(records) > limit:
        return KeysetPage(records[:limit], _key(query, records[limit - 1]))
    return KeysetPage(records, await _last_looked(db, query, after))


async def _last_looked(
    db: Database | Connection, query: KeysetQuery, after: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    """Returns the key of the last row that the page may read; None if it has read all rows."""
    looked = _looked(query, after)
    record = await db.record(
        f"SELECT {', '.join(query.key)} FROM {query.table} WHERE {looked.sql}"
        f" ORDER BY {_order(query)} OFFSET {LOOK_MAX - 1} LIMIT 1",
        *looked.values,
    )
    return None if record is None else _key(query, record)


def _looked(query: KeysetQuery, after: tuple[Any, ...] | None) -> Conditions:
    looked = query.whose.copy()
    if after is None:
        return looked
    marks, sign = ", ".join("{}" for _ in query.key), ">" if query.is_ascending else "<"
    return looked.add(f"({', '.join(query.key)}) {sign} ({marks})", *after)


def _order(query: KeysetQuery) -> str:
    return ", ".join(column + ("" if query.is_ascending else " DESC") for column in query.key)


def _key(query: KeysetQuery, record: Any) -> tuple[Any, ...]:
    return tuple(record[column] for column in query.key)
