"""The fence in the database: which merchants no process of a cell can act for."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg

from manilla.cells.moving.tables import FENCED
from manilla.kit import changes, time_limits
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import put_from

# The states in which a cell only has a copy of the merchant's rows, which another move can replace.
COPIES = ("left", "partial")
TRIES, PAUSE_SECONDS = 20, 0.05
DRAIN_SECONDS, POLL_SECONDS = 2.0, 0.05
LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'"
# Emails are sent by the cell that has written them.
_MOVES = "merchant_id = $1 AND kind NOT IN ('mail', 'mail.receipt', 'person.reset')"
_FREE = "(leased_until IS NULL OR leased_until <= now())"
_JOB = "merchant_id, kind, subject, due_at, attempts, failures, parked_at, last_error"


class LocksTaken(Refusal):
    message = (
        "Other transactions hold the locks that the move needs. Nothing is lost: run the command"
        " again with --continue or --abort."
    )


class CannotMove(Refusal):
    status, code = 409, "CANNOT_MOVE"
    message = "The merchant cannot be moved."


class Overtaken(CannotMove):
    message = "Another command has continued or aborted the move. This command has stopped."


async def pass_copy(connection: Connection, merchant_id: int) -> None:
    """Lets the transaction change the copy of a merchant that has moved to another cell.

    During a move, the fence still rejects the change, so that a copy equals its original.
    """
    if await state(connection, merchant_id) in COPIES:
        await pass_fence(connection, merchant_id)


async def pass_fence(connection: Connection, merchant_id: int) -> None:
    """Lets this transaction change the rows of a fenced merchant."""
    await connection.execute(f"{LOCK_TIMEOUT}; SET LOCAL manilla.moves = '{merchant_id}'")


async def create_triggers(db: Database, tables: tuple[str, ...] = FENCED) -> None:
    """Creates the triggers for the merchants that have a fence now, or drops them if none has.

    Each table is locked for a moment in its own transaction, so the locks cannot deadlock.
    """
    for table in tables:
        await retry(partial(_create_triggers_on, db, table))


async def _create_triggers_on(db: Database, table: str) -> None:
    async with db.transaction() as connection:
        await connection.execute(LOCK_TIMEOUT)
        await connection.execute("SELECT merchant_fence_on($1)", table)


async def retry(work: Callable[[], Awaitable[Any]]) -> None:
    """Repeats a transaction that could not get its locks in time, or deadlocked."""
    for attempt in range(TRIES):
        try:
            await work()
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            if attempt == TRIES - 1:
                raise LocksTaken from error
            await asyncio.sleep(PAUSE_SECONDS * (attempt + 1))
        else:
            return


async def state(db: Database | Connection, merchant_id: int) -> str | None:
    found: str | None = await db.value(
        "SELECT state FROM merchant_fence WHERE merchant_id = $1", merchant_id
    )
    return found


async def put(
    connection: Connection, merchant_id: int, cell: str, new: str, *, after: tuple[str | None, ...]
) -> None:
    """Sets the state. Waits for all transactions that passed the fence in its old state.

    `after`: the states that can precede the new one, with None for no fence. Any other state means
    that another command has moved the merchant meanwhile.
    """
    await changes.announce(connection, changes.CELLS)
    found = await connection.has_row(
        """
        UPDATE merchant_fence SET cell = $2, state = $3, since = now()
         WHERE merchant_id = $1 AND state = ANY ($4::text[]) RETURNING true""",
        *(merchant_id, cell, new, [each for each in after if each is not None]),
    )
    if not found and None in after:
        found = await connection.has_row(
            """
            INSERT INTO merchant_fence (merchant_id, cell, state) VALUES ($1, $2, $3)
                ON CONFLICT DO NOTHING RETURNING true""",
            *(merchant_id, cell, new),
        )
    if not found:
        raise Overtaken


async def remove(connection: Connection, merchant_id: int, *, after: tuple[str, ...]) -> None:
    """Removes the fence, if there is one. `after`: the states in which it can be removed."""
    await changes.announce(connection, changes.CELLS)
    await connection.execute(
        "DELETE FROM merchant_fence WHERE merchant_id = $1 AND state = ANY ($2::text[])",
        *(merchant_id, list(after)),
    )
    if await state(connection, merchant_id) is not None:
        raise Overtaken


async def take_jobs(db: Database, merchant_id: int, *, with_held: bool) -> int:
    """Takes the merchant's jobs away from the workers. Returns how many jobs are left.

    Without its job, a worker can neither mark a transfer as sent nor claim it again. Jobs that a
    worker holds are taken only if `with_held` is set. The worker may be calling a provider, and the
    call continues.
    """
    async with db.transaction() as connection:
        await pass_fence(connection, merchant_id)
        await connection.execute(
            f"""
            WITH taken AS (
                DELETE FROM job WHERE ctid = ANY (ARRAY(
                       SELECT ctid FROM job WHERE {_MOVES} AND ($2 OR {_FREE})
                          FOR UPDATE{"" if with_held else " SKIP LOCKED"}))
                RETURNING {_JOB}, NOT {_FREE} AS was_held)
            INSERT INTO moved_job AS known ({_JOB}, was_held) SELECT {_JOB}, was_held FROM taken
                ON CONFLICT (merchant_id, kind, subject) DO UPDATE
               SET due_at = least(known.due_at, excluded.due_at), parked_at = NULL, failures = 0,
                   was_held = known.was_held OR excluded.was_held""",
            *(merchant_id, with_held),
        )
        return await connection.number(f"SELECT count(*) FROM job WHERE {_MOVES}", merchant_id)


async def drain(db: Database, merchant_id: int) -> None:
    """Takes waiting jobs away, and lets workers finish the jobs that they hold."""
    ends = time.monotonic() + DRAIN_SECONDS
    while await take_jobs(db, merchant_id, with_held=False):
        if time.monotonic() > ends:
            # The fence stops the worker. The second cell queries the outcome after the worker's
            # calls have ended.
            return
        await asyncio.sleep(POLL_SECONDS)


async def return_jobs(connection: Connection, merchant_id: int) -> None:
    """Gives the jobs back to the workers of the cell.

    The worker that held a job when it was taken may still be sending a transfer. A provider could
    report that it does not know the transfer yet, and the transfer would be sent again. Therefore,
    such a job gets a new lease, during which no worker can claim it, even if a webhook arrives.
    """
    await connection.execute(
        put_from("SELECT merchant_id, kind, subject, due_at FROM moved_job WHERE merchant_id = $1"),
        merchant_id,
    )
    await connection.execute(
        """
        UPDATE job SET parked_at = moved.parked_at, failures = moved.failures,
               attempts = moved.attempts, last_error = moved.last_error,
               leased_until = greatest(job.leased_until,
                                       CASE WHEN moved.was_held THEN now() + $2::interval END)
          FROM moved_job moved
         WHERE moved.merchant_id = $1 AND (job.merchant_id, job.kind, job.subject)
               = (moved.merchant_id, moved.kind, moved.subject)""",
        *(merchant_id, timedelta(seconds=time_limits.current.lease_seconds)),
    )
    await delete_jobs(connection, merchant_id)


async def delete_jobs(connection: Connection, merchant_id: int) -> None:
    await connection.execute("DELETE FROM moved_job WHERE merchant_id = $1", merchant_id)
