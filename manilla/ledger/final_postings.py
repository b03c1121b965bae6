"""Adds final postings to totals, in ranges of their ids."""

from collections.abc import Awaitable, Callable

from manilla.kit.database.connections import SET_BY_KEY, Connection, Database

# Adds the postings after the first id, up to the second one, and writes the second id to the head.
AddRange = Callable[[Connection, int, int], Awaitable[None]]


async def add(db: Database, lock_head: str, ids_max: int, add_range: AddRange) -> None:
    """Adds the postings that the hash chain covers, because no earlier posting can follow.

    `lock_head` is the SQL that locks the row with the last id that was added. `ids_max` is the
    largest range in one transaction.
    """
    while await _add_some(db, lock_head, ids_max, add_range):
        pass


async def _add_some(db: Database, lock_head: str, ids_max: int, add_range: AddRange) -> bool:
    """Adds one range of postings. Returns False if none is left, or another worker adds them."""
    async with db.transaction() as connection:
        await connection.execute(SET_BY_KEY)
        last_id: int | None = await connection.value(lock_head)
        final_id: int = await connection.value("SELECT last_id FROM posting_chain_head")
        if last_id is None or last_id >= final_id:
            return False
        await add_range(connection, last_id, min(final_id, last_id + ids_max))
    return True
