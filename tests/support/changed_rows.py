"""Changes rows that only the owner of the database can change."""

import contextlib
import re
from collections.abc import AsyncIterator

from manilla.kit.database.connections import Database


@contextlib.asynccontextmanager
async def changed(
    owner: Database, table: str, change: str, value: str, key: str = "trx_id"
) -> AsyncIterator[None]:
    """The database's owner disables the triggers, and changes a row until the end of the block."""
    trigger = "append_only" if table == "posting" else "as_accepted"
    kind = " AND kind = 'payout'" if table == "posting" else ""
    of_row = f"{key} = '{value}'{kind}"
    columns = re.findall(r"(\w+) = ", change)
    before = await owner.record(f"SELECT {', '.join(columns)} FROM {table} WHERE {of_row}")
    await owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
    try:
        await owner.execute(f"UPDATE {table} SET {change} WHERE {of_row}")
        yield
        for column in columns:
            await owner.execute(f"UPDATE {table} SET {column} = $1 WHERE {of_row}", before[column])
    finally:
        await owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER {trigger}")
