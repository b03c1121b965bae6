"""Moves sealed columns to the master key in use."""

from collections.abc import Callable
from typing import Any

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database


class SealedColumn(msgspec.Struct, frozen=True):
    """Where sealed values are kept, and how a row's context is made from its key."""

    table: str
    column: str
    key: tuple[str, ...]
    context: Callable[[Any], str]


async def rewrap(db: Database, keyring: Keyring, place: SealedColumn) -> int:
    """Returns how many values were wrapped anew; what is already so stays as it is."""
    names = ", ".join(place.key)
    rows = await db.records(
        f"SELECT {names}, {place.column} AS sealed FROM {place.table}"
        f" WHERE {place.column} IS NOT NULL"
    )
    stale = [row for row in rows if not keyring.is_current(row["sealed"])]
    match = " AND ".join(f"{name} = ${n}" for n, name in enumerate(place.key, start=3))
    for row in stale:
        # The old value is named: one that was sealed anew in the meantime is left alone.
        await db.execute(
            f"UPDATE {place.table} SET {place.column} = $1 WHERE {place.column} = $2 AND {match}",
            keyring.rewrap(row["sealed"], place.context(row)),
            row["sealed"],
            *(row[name] for name in place.key),
        )
    return len(stale)
