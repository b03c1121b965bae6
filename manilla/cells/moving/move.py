"""Moves a merchant step by step. Each step can run again, so a move continues after a crash.

The first cell stores the last step that has ended. Until the second cell is activated, the move can
be taken back. From then on it can only be continued.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial

from manilla.cells import registry
from manilla.cells.moving import checks
from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.steps import StepRunner
from manilla.cells.moving.stored import (
    STEPS,
    STORE,
    Cells,
    IsTakenBack,
    MoveIsOpen,
    Step,
    StoredMove,
    alone,
    find_open,
    lock_open,
    record_audit,
    repeat,
    store_step,
)
from manilla.kit import ids
from manilla.kit.database.connections import Database
from manilla.people import invitations

_DISCONNECTED = STEPS.index(Step.DISCONNECT)  # the last step before the activation

# Called after a step has done its work, before the step is stored, and with the seconds it took.
OnStep = Callable[[Step, float], Awaitable[None]]


async def begin(cells: Cells, merchant_id: int, to: str, *, invites: bool = False) -> StoredMove:
    """Checks that the merchant can be moved, and stores the move in both cells."""
    if await find_open(cells.source, merchant_id) is not None:
        raise MoveIsOpen
    await checks.check(cells.source, cells.target, cells.keyring, merchant_id, to, invites=invites)
    if await find_open(cells.target, merchant_id) is not None:
        raise MoveIsOpen(
            f"{to} has another move of the merchant on record that has not ended. Wait until its"
            " command ends. If the command was interrupted, run it again in the cell in which it"
            " was started, with --continue or --abort."
        )
    this = await registry.required_this(cells.source)
    move_id = ids.new_key("move_")
    for db in (cells.source, cells.target):
        async with db.transaction() as connection:
            await connection.execute(STORE, move_id, merchant_id, this.name, to, Step.CHECK)
            await record_audit(connection, "cell.move.begin", merchant_id, move_id, this.name, to)
    found = await find_open(cells.source, merchant_id)
    if found is None or found.id != move_id:
        raise MoveIsOpen
    return found


async def run_steps(cells: Cells, move: StoredMove, on_step: OnStep) -> None:
    """Runs all steps after the last one that has ended."""
    async with alone(cells, move):
        await _check_in_target(cells.target, move)
        runner = StepRunner(cells, move)
        first = STEPS.index(Step(move.step)) + 1
        for previous, step in zip(STEPS[first - 1 :], STEPS[first:], strict=False):
            async with cells.source.transaction() as connection:
                await lock_open(connection, move, previous)
            began = time.monotonic()
            await repeat(partial(runner.run, step))
            await on_step(step, time.monotonic() - began)
            await store_step(cells.source, move, previous, step)


async def _check_in_target(target: Database, move: StoredMove) -> None:
    """Raises an error if the second cell has taken the move back, or has ended it too early."""
    row = await target.record(
        "SELECT was_aborted, activated_at FROM merchant_move WHERE id = $1", move.id
    )
    if row is None:
        return
    if row["was_aborted"]:
        raise IsTakenBack
    if row["activated_at"] is not None and Step(move.step) not in STEPS[_DISCONNECTED:]:
        raise CannotMove(
            f"{move.to_cell} has served the merchant since {row['activated_at']:%Y-%m-%d %H:%M:%S},"
            f" but this cell's database only knows its step {move.step}. It was recovered to an"
            " earlier moment, so the move cannot continue. Run `manilla cell depart`."
        )


async def gap_seconds(source: Database, target: Database, move: StoredMove) -> float | None:
    """Returns for how long no cell accepted the merchant's requests, by the clocks of both."""
    closed_at = await source.value("SELECT closed_at FROM merchant_move WHERE id = $1", move.id)
    opened_at = await target.value("SELECT activated_at FROM merchant_move WHERE id = $1", move.id)
    return (opened_at - closed_at).total_seconds() if closed_at and opened_at else None


async def invited_emails(target: Database, move: StoredMove) -> list[str]:
    """Returns the members whom the activation has invited instead of giving them access."""
    activated_at = await target.value(
        "SELECT activated_at FROM merchant_move WHERE id = $1", move.id
    )
    return await invitations.emails_invited_at(target, move.merchant_id, activated_at)
