"""Rewraps sealed columns with the current master key."""

from collections.abc import Callable
from typing import Any

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database


class SealedColumn(msgspec.Struct, frozen=True):
    """A column with sealed values, and how to derive a row's context from its key."""

    table: str
    column: str
    key: tuple[str, ...]
    context: Callable[[Any], str]


async def rewrap(db: Database, keyring: Keyring, place: SealedColumn) -> int:
    """Returns how many values were rewrapped; values with the current key do not change."""
    names = ", ".join(place.key)
    rows = await db.records(
        f"SELECT {names}, {place.column} AS sealed FROM {place.table}"
        f" WHERE {place.column} IS NOT NULL"
    )
    stale = [row for row in rows if not keyring.is_current(row["sealed"])]
    match = " AND ".join(f"{name} = ${n}" for n, name in enumerate(place.key, start=3))
    for row in stale:
        # Match the old value, so that a value written in the meantime is not overwritten.
        await db.execute(
            f"UPDATE {place.table} SET {place.column} = $1 WHERE {place.column} = $2 AND {match}",
            keyring.rewrap(row["sealed"], place.context(row)),
            row["sealed"],
            *(row[name] for name in place.key),
        )
    return len(stale)
