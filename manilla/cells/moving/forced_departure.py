"""Records that a merchant lives in another cell, after this cell's database was recovered.

If the recovered moment is before a move, both cells claim the merchant. The other cell acts for the
merchant, so this cell fences the merchant as a finished move does.
"""

from collections.abc import Collection

import msgspec

from manilla.audit import audit
from manilla.cells import directory, registry
from manilla.cells.moving import checks, differences, fence, move, replication
from manilla.cells.moving.differences import Difference
from manilla.cells.moving.fence import CannotMove, retry
from manilla.cells.moving.move import OnStep
from manilla.cells.moving.stored import (
    Cells,
    MoveIsOpen,
    Step,
    StoredMove,
    alone,
    find_open,
    stored_fact,
)
from manilla.kit import changes
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import columns
from manilla.merchants import queries as merchants

# A cell has the time of the activation if the merchant arrived there, or has departed from there.
_ACTIVATED = f"""
    SELECT {columns(StoredMove)} FROM merchant_move
     WHERE merchant_id = $1 AND activated_at IS NOT NULL ORDER BY activated_at DESC"""


class UndecidedDifferences(msgspec.Struct, frozen=True):
    """What only this cell knows. A person must decide about it before the merchant departs."""

    listed: list[Difference]


async def depart(
    cells: Cells, merchant_id: int, to: str, decided: Collection[str], on_step: OnStep
) -> UndecidedDifferences | None:
    """Fences the merchant here, and records that it lives in the other cell.

    `decided`: the references of differences about which a person has decided. If there are others,
    returns all differences. The merchant is fenced in any case, because the other cell acts for it.
    Each step can run again.
    """
    arrival = await _find_arrival(cells, merchant_id, to)
    if await _has_departed(cells.source, arrival):
        return None
    async with alone(cells, arrival):
        known = await _store(cells.source, arrival)
        if known.step not in (Step.ACTIVATE, Step.DEPART):
            await _fence(cells.source, arrival)
            found = await differences.find(
                cells.source, cells.target, merchant_id, arrival.began_at
            )
            if any(each.reference not in decided for each in found):
                return UndecidedDifferences(found)
            await _permit(cells.source, known, found)
    opened = await find_open(cells.source, merchant_id)
    if opened is not None:
        await move.run_steps(cells, opened, on_step)
    return None


async def _find_arrival(cells: Cells, merchant_id: int, to: str) -> StoredMove:
    """Returns the move with which the merchant arrived in the other cell.

    Raises an error if the other cell does not act for the merchant, or if the merchant did not
    arrive there from this cell.
    """
    source, target = cells.source, cells.target
    async for problem in checks.wrong_databases(source, target, to):
        raise CannotMove(problem)
    if await merchants.merchant(source, merchant_id) is None:
        raise CannotMove("There is no such merchant in this cell.")
    home = (await directory.load(target)).home_of(merchant_id)
    if home is None or not home.is_this or await merchants.merchant(target, merchant_id) is None:
        raise CannotMove(
            f"{to} does not have the merchant, so the merchant stays in this cell."
            " `manilla cell check` shows what each cell says."
        )
    if await fence.state(target, merchant_id) or await find_open(target, merchant_id) is not None:
        raise MoveIsOpen(f"{to} is moving the merchant. Wait until that move has ended.")
    this = await registry.required_this(source)
    ours, theirs = [await db.rows(StoredMove, _ACTIVATED, merchant_id) for db in (source, target)]
    unknown = {each.id for each in ours} - {each.id for each in theirs}
    if unknown:
        raise CannotMove(
            f"{to} does not know a move of the merchant that this cell knows, so the database of"
            f" {to} was recovered and not this one. Run `manilla cell depart` in {to}."
        )
    if not theirs or (theirs[0].from_cell, theirs[0].to_cell) != (this.name, to):
        raise CannotMove(
            f"The merchant's last move did not lead from {this.name} to {to}. Find out in which"
            " cell the merchant lives with `manilla cell check`."
        )
    return theirs[0]


async def _has_departed(source: Database, arrival: StoredMove) -> bool:
    """Returns whether this cell knows that the merchant lives in the other cell."""
    home = (await directory.load(source)).home_of(arrival.merchant_id)
    if home is not None and not home.is_this and home.name != arrival.to_cell:
        raise CannotMove(f"This cell says that the merchant lives in {home.name}.")
    ended = await source.value("SELECT ended_at FROM merchant_move WHERE id = $1", arrival.id)
    return ended is not None and await fence.state(source, arrival.merchant_id) == "left"


async def _store(source: Database, arrival: StoredMove) -> StoredMove:
    """Stores the move in this cell, unless the recovered database has it.

    While the step is `check`, `cell move` can neither continue the move nor take it back.
    """
    await source.execute(
        """
        INSERT INTO merchant_move (id, merchant_id, from_cell, to_cell, step)
        VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING""",
        *(arrival.id, arrival.merchant_id, arrival.from_cell, arrival.to_cell, Step.CHECK),
    )
    found = await find_open(source, arrival.merchant_id)
    if found is None or found.id != arrival.id:
        raise MoveIsOpen("This cell has another move of the merchant. Take it back with --abort.")
    return found


async def _fence(source: Database, arrival: StoredMove) -> None:
    """Closes the fence of this cell in the same order as a move."""
    merchant_id, to = arrival.merchant_id, arrival.to_cell
    if await fence.state(source, merchant_id) != "leaving":
        async with source.transaction() as connection:
            before = (None, "copying", "closing")
            await fence.put(connection, merchant_id, to, "closing", after=before)
    await fence.create_triggers(source)
    await changes.known_everywhere()
    await fence.drain(source, merchant_id)
    await retry(lambda: _leave(source, merchant_id, to))
    await retry(lambda: fence.take_jobs(source, merchant_id, with_held=True))
    await replication.unpublish(
        source, merchant_id, await stored_fact(source, arrival, "subscription")
    )


async def _leave(source: Database, merchant_id: int, to: str) -> None:
    async with source.transaction() as connection:
        await connection.execute(fence.LOCK_TIMEOUT)
        await fence.put(connection, merchant_id, to, "leaving", after=("closing", "leaving"))


async def _permit(source: Database, known: StoredMove, found: list[Difference]) -> None:
    """Lets the move continue with its last steps, which the other cell has waited for."""
    async with source.transaction() as connection:
        await connection.execute(
            "UPDATE merchant_move SET step = $2 WHERE id = $1 AND ended_at IS NULL",
            *(known.id, Step.ACTIVATE),
        )
        await audit.record(
            *(connection, "cell.depart", f"merchant:{known.merchant_id}"),
            merchant_id=known.merchant_id,
            move=known.id,
            to_cell=known.to_cell,
            decided=[each.reference for each in found],
        )
