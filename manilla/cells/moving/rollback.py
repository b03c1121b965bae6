"""Takes a move back, unless the second cell already acts for the merchant."""

from manilla.cells.moving import fence, replication, rows
from manilla.cells.moving.fence import retry
from manilla.cells.moving.stored import (
    Cells,
    StoredMove,
    TooLate,
    alone,
    announce,
    find_open,
    record_audit,
    repeat,
    store_in_target,
    stored_fact,
)
from manilla.kit.database.connections import Connection


async def abort(cells: Cells, move: StoredMove) -> None:
    """Takes the move back, unless the second cell already acts for the merchant."""
    async with alone(cells, move):
        await repeat(lambda: _abort(cells, move))


async def _abort(cells: Cells, move: StoredMove) -> None:
    source, target, merchant_id = cells.source, cells.target, move.merchant_id
    current = await find_open(source, merchant_id)
    if current is None or current.id != move.id:
        raise fence.Overtaken
    # Store the move in the second cell now, so that an overtaken command cannot store it later.
    await store_in_target(target, move)
    async with target.transaction() as connection:
        # The lock waits for an activation that has not been committed.
        row = await connection.record(
            "SELECT activated_at FROM merchant_move WHERE id = $1 FOR UPDATE", move.id
        )
        if row is not None and row["activated_at"] is not None:
            raise TooLate
        # From here on, the activation finds that the move was taken back.
        await connection.execute(
            "UPDATE merchant_move SET was_aborted = true WHERE id = $1", move.id
        )
    oid = await replication.subscription_oid(target, merchant_id)
    oid = oid or await stored_fact(source, move, "subscription")
    await replication.unsubscribe(target, merchant_id)
    await replication.unpublish(source, merchant_id, oid)
    await retry(lambda: _remove_arrival(cells, move))
    await fence.create_triggers(target)
    await retry(lambda: _reopen(cells, move))
    await fence.create_triggers(source)


async def _remove_arrival(cells: Cells, move: StoredMove) -> None:
    async with cells.target.transaction() as connection:
        await fence.pass_fence(connection, move.merchant_id)
        if not await _end(connection, move):
            return
        if await fence.state(connection, move.merchant_id) == "arriving":
            was_here = await connection.value(
                "SELECT after_id > 0 OR facts ? 'returns' FROM merchant_fence f, merchant_move m"
                " WHERE f.merchant_id = $1 AND m.id = $2",
                *(move.merchant_id, move.id),
            )
            await rows.remove_copy(connection, move.merchant_id, with_small=not was_here)
            arriving = ("arriving",)
            if was_here:
                await fence.put(
                    connection, move.merchant_id, move.from_cell, "partial", after=arriving
                )
            else:
                await fence.remove(connection, move.merchant_id, after=arriving)
        await _audit_abort(connection, move)


async def _reopen(cells: Cells, move: StoredMove) -> None:
    async with cells.source.transaction() as connection:
        await fence.pass_fence(connection, move.merchant_id)
        if not await _end(connection, move):
            return
        await fence.remove(connection, move.merchant_id, after=("copying", "closing", "leaving"))
        await fence.return_jobs(connection, move.merchant_id)
        await announce(connection, move.merchant_id)
        await _audit_abort(connection, move)


async def _end(connection: Connection, move: StoredMove) -> bool:
    """Ends the move in a cell. Returns False if it has ended, so the fence is not the move's."""
    return await connection.has_row(
        "UPDATE merchant_move SET ended_at = now(), was_aborted = true"
        " WHERE id = $1 AND ended_at IS NULL RETURNING true",
        move.id,
    )


async def _audit_abort(connection: Connection, move: StoredMove) -> None:
    names = (move.from_cell, move.to_cell)
    await record_audit(connection, "cell.move.abort", move.merchant_id, move.id, *names)
