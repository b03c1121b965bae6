"""The stored move: its steps, and what both cells store about it.

The first cell stores the last step that has ended. Only one command works on a move at any time.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import asyncpg
import msgspec

from manilla.audit import audit
from manilla.cells.moving import fence
from manilla.cells.moving.fence import CannotMove
from manilla.kit import changes
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Unavailable
from manilla.merchants import queries as merchants

UNAVAILABLE_TRIES = 10


class Step(StrEnum):
    """The steps, in their order."""

    CHECK = "check"
    VERIFY = "verify"
    PREPARE = "prepare"
    PUBLISH = "publish"
    COPY = "copy"
    CLOSE = "close"
    DRAIN = "drain"
    FENCE = "fence"
    CATCH_UP = "catch_up"
    DISCONNECT = "disconnect"
    ACTIVATE = "activate"
    DEPART = "depart"
    VERIFY_AGAIN = "verify_again"


STEPS = tuple(Step)


class NoMove(CannotMove):
    status, code = 404, "NO_MOVE"
    message = "The merchant is not being moved."


class MoveIsOpen(CannotMove):
    message = (
        "The merchant is already being moved. Continue with --continue, or take it back with"
        " --abort."
    )


class TooLate(CannotMove):
    message = "The second cell already acts for the merchant. Continue the move with --continue."


class IsTakenBack(CannotMove):
    message = "The move is being taken back. Finish that with --abort."


class StoredMove(msgspec.Struct, frozen=True):
    id: str
    merchant_id: int
    from_cell: str
    to_cell: str
    step: str
    began_at: datetime
    closed_at: datetime | None
    activated_at: datetime | None
    ended_at: datetime | None


class Cells(msgspec.Struct, frozen=True):
    """The databases of both cells, opened as the owners of their tables."""

    source: Database
    target: Database
    keyring: Keyring
    source_url: str  # where the second cell's PostgreSQL finds the first cell's database
    urls: tuple[str, str]  # of both databases, for the independent program


_OPEN = (
    f"SELECT {columns(StoredMove)} FROM merchant_move WHERE merchant_id = $1 AND ended_at IS NULL"
)
STORE = """
    INSERT INTO merchant_move (id, merchant_id, from_cell, to_cell, step)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"""


async def find_open(db: Database | Connection, merchant_id: int) -> StoredMove | None:
    return await db.row(StoredMove, _OPEN, merchant_id)


async def store_in_target(target: Database, move: StoredMove) -> None:
    names = (move.from_cell, move.to_cell)
    await target.execute(STORE, move.id, move.merchant_id, *names, Step.CHECK)


async def store_step(source: Database, move: StoredMove, previous: Step, step: Step) -> None:
    if not await source.has_row(
        "UPDATE merchant_move SET step = $3, ended_at = CASE WHEN $4 THEN now() END"
        " WHERE id = $1 AND step = $2 AND ended_at IS NULL RETURNING true",
        *(move.id, previous, step, step is STEPS[-1]),
    ):
        raise fence.Overtaken


async def lock_open(connection: Connection, move: StoredMove, step: str) -> None:
    """Locks the move in the first cell until the transaction ends. Fails if it is not at the step.

    The session with the command's lock can be lost, and another command can continue the move.
    """
    if not await connection.has_row(
        "SELECT true FROM merchant_move WHERE id = $1 AND step = $2 AND ended_at IS NULL FOR SHARE",
        *(move.id, step),
    ):
        raise fence.Overtaken


@contextlib.asynccontextmanager
async def alone(cells: Cells, move: StoredMove) -> AsyncIterator[None]:
    """Ensures that only one command works on the move. The lock ends with the session."""
    key = f"hashtextextended('merchant_move', {move.merchant_id})"
    async with cells.source.connection() as held:
        if not await held.value(f"SELECT pg_try_advisory_lock({key})"):
            raise MoveIsOpen("Another command is moving this merchant at the moment.")
        try:
            yield
        finally:
            # The lock is gone if its session is.
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await held.value(f"SELECT pg_advisory_unlock({key})")


async def store_fact(source: Database, move: StoredMove, name: str, fact: Any) -> None:
    await source.execute(
        "UPDATE merchant_move SET facts = facts || jsonb_build_object($2::text, $3::jsonb)"
        " WHERE id = $1",
        *(move.id, name, msgspec.json.encode(fact).decode()),
    )


async def stored_fact(source: Database, move: StoredMove, name: str) -> Any:
    """Returns what a step has stored under this name, or None."""
    found: str | None = await source.value(
        "SELECT (facts -> $2)::text FROM merchant_move WHERE id = $1", move.id, name
    )
    return None if found is None else msgspec.json.decode(found)


async def announce(connection: Connection, merchant_id: int) -> None:
    """Makes the processes of a cell read the merchant again."""
    version = await changes.announce(connection, changes.MERCHANTS)
    await merchants.touch_merchant(connection, merchant_id, version)


async def record_audit(
    connection: Connection,
    action: str,
    merchant_id: int,
    move_id: str,
    first: str,
    second: str,
    links: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    await audit.record(
        *(connection, action, f"merchant:{merchant_id}"),
        merchant_id=merchant_id,
        move=move_id,
        from_cell=first,
        to_cell=second,
        **links,
    )


async def repeat(work: Callable[[], Awaitable[None]]) -> None:
    """Repeats a step while a database is briefly unavailable. Every step can run again."""
    for attempt in range(UNAVAILABLE_TRIES):
        try:
            await work()
        except Unavailable:
            if attempt == UNAVAILABLE_TRIES - 1:
                raise
            await asyncio.sleep(1)
        else:
            return
