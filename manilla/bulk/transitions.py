"""SQL statements that change the state of a batch or of its rows."""

from datetime import timedelta

from manilla.bulk import store
from manilla.bulk.store import Batch, RowState
from manilla.kit.database.connections import Connection, Database


async def lock(connection: Connection, found: Batch) -> Batch:
    """Locks the batch, so that neither it nor its rows can change, and reloads it."""
    await connection.execute(
        "SELECT FROM payout_batch WHERE merchant_id = $1 AND id = $2 FOR UPDATE",
        *(found.merchant_id, found.id),
    )
    locked = await store.batch(connection, found.merchant_id, found.id)
    assert locked is not None
    return locked


async def start(connection: Connection, locked: Batch, confirmed_by: str) -> None:
    await connection.execute(
        """
        UPDATE payout_batch SET status = 'running', confirmed_by = $3, confirmed_at = now()
         WHERE merchant_id = $1 AND id = $2""",
        *(locked.merchant_id, locked.id, confirmed_by),
    )


async def ask(
    connection: Connection, locked: Batch, person_id: int, email: str, lasts: timedelta
) -> None:
    """Marks the batch as waiting for a second person's approval."""
    await connection.execute(
        """
        UPDATE payout_batch SET status = 'asked', asked_by_id = $3, asked_by = $4, asked_at = now(),
               expires_at = now() + $5::interval
         WHERE merchant_id = $1 AND id = $2""",
        *(locked.merchant_id, locked.id, person_id, email, lasts),
    )


async def refuse(connection: Connection, locked: Batch, ended_by: str | None, why: str) -> None:
    """Rejects a batch that needs a second person's approval. None of its rows is paid."""
    await refuse_ready(connection, locked, why)
    await connection.execute(
        """
        UPDATE payout_batch SET status = 'refused', ended_by = $3, ended_at = now()
         WHERE merchant_id = $1 AND id = $2""",
        *(locked.merchant_id, locked.id, ended_by),
    )


async def stop(connection: Connection, locked: Batch, ended_by: str, why: str) -> None:
    """Stops a batch: rejects the rows that have no payout yet."""
    await refuse_ready(connection, locked, why)
    await connection.execute(
        """
        UPDATE payout_batch SET status = 'running', stopped_at = now(), ended_by = $3
         WHERE merchant_id = $1 AND id = $2""",
        *(locked.merchant_id, locked.id, ended_by),
    )


async def refuse_ready(connection: Connection, locked: Batch, why: str) -> None:
    await connection.execute(
        """
        UPDATE payout_batch_row SET state = 'refused', remark = $3
         WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready'""",
        *(locked.merchant_id, locked.id, why),
    )


async def decide(
    db: Database,
    of: Batch,
    number: int,
    state: RowState,
    *,
    trx_id: str | None = None,
    remark: str | None = None,
) -> None:
    """Sets the final state of a row that has no final state yet."""
    await db.execute(
        """
        UPDATE payout_batch_row SET state = $4, trx_id = $5, remark = coalesce($6, remark)
         WHERE merchant_id = $1 AND batch_id = $2 AND number = $3 AND state = 'ready'""",
        *(of.merchant_id, of.id, number, state, trx_id, remark),
    )


async def refuse_after_first(connection: Connection, of: Batch, rows: int, remark: str) -> None:
    """Rejects all ready rows except the first `rows` rows."""
    await connection.execute(
        """
        UPDATE payout_batch_row SET state = 'refused', remark = $4
         WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready'
           AND number > (SELECT max(number) FROM (
                         SELECT number FROM payout_batch_row
                          WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready'
                          ORDER BY number LIMIT $3) AS first)""",
        *(of.merchant_id, of.id, rows, remark),
    )


async def refuse_from(db: Database, of: Batch, number: int, remark: str, later: str) -> None:
    """Rejects this row and all later rows in one SQL statement, so that none can be paid."""
    await db.execute(
        """
        UPDATE payout_batch_row
           SET state = 'refused', remark = CASE WHEN number = $3 THEN $4 ELSE $5 END
         WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready' AND number >= $3""",
        *(of.merchant_id, of.id, number, remark, later),
    )


async def end(connection: Connection, ended: Batch) -> bool:
    """Ends the batch. Returns False if it has already ended."""
    return await connection.has_row(
        """
        UPDATE payout_batch SET status = 'done', ended_at = now()
         WHERE merchant_id = $1 AND id = $2 AND status = 'running'
        RETURNING id""",
        *(ended.merchant_id, ended.id),
    )
