"""Moves a merchant step by step. Each step can run again, so a move continues after a crash.

The first cell stores the last step that has ended. Until the second cell is activated, the move can
be taken back. From then on it can only be continued.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any

import asyncpg
import msgspec

from manilla.audit import audit
from manilla.cells import registry
from manilla.cells.moving import checks, comparison, fence, replication, rows, team
from manilla.cells.moving.fence import CannotMove, retry
from manilla.kit import changes, ids
from manilla.kit.crypto import Keyring
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Unavailable
from manilla.kit.sessions.rows import columns
from manilla.ledger import clearing
from manilla.merchants import queries as merchants
from manilla.people import invitations
from manilla.proofs import chain
from manilla.proofs.verify import HIGHEST_ID

DRAIN_SECONDS = 2.0
POLL_SECONDS = 0.05
POSTING_MARGIN = 1_000_000
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
_DISCONNECTED = STEPS.index(Step.DISCONNECT)  # the last step before the activation


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


# Called after a step has done its work, before the step is stored, and with the seconds it took.
OnStep = Callable[[Step, float], Awaitable[None]]


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


_STORE = """
    INSERT INTO merchant_move (id, merchant_id, from_cell, to_cell, step)
    VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"""


async def find_open(db: Database | Connection, merchant_id: int) -> StoredMove | None:
    return await db.row(StoredMove, _OPEN, merchant_id)


async def begin(cells: Cells, merchant_id: int, to: str, *, invites: bool = False) -> StoredMove:
    """Checks that the merchant can be moved, and stores the move in both cells."""
    if await find_open(cells.source, merchant_id) is not None:
        raise MoveIsOpen
    await checks.check(cells.source, cells.target, cells.keyring, merchant_id, to, invites=invites)
    if await find_open(cells.target, merchant_id) is not None:
        raise MoveIsOpen(f"{to} knows another move of the merchant that has not ended.")
    this = await registry.required_this(cells.source)
    move_id = ids.new_key("move_")
    for db in (cells.source, cells.target):
        async with db.transaction() as connection:
            await connection.execute(_STORE, move_id, merchant_id, this.name, to, Step.CHECK)
            await _audit(connection, "cell.move.begin", merchant_id, move_id, this.name, to)
    found = await find_open(cells.source, merchant_id)
    if found is None or found.id != move_id:
        raise MoveIsOpen
    return found


async def run_steps(cells: Cells, move: StoredMove, on_step: OnStep) -> None:
    """Runs all steps after the last one that has ended."""
    async with _alone(cells, move):
        await _check_in_target(cells.target, move)
        runner = _Runner(cells, move)
        first = STEPS.index(Step(move.step)) + 1
        for previous, step in zip(STEPS[first - 1 :], STEPS[first:], strict=False):
            async with cells.source.transaction() as connection:
                await _lock_open(connection, move, previous)
            began = time.monotonic()
            await _repeat(partial(runner.run, step))
            await on_step(step, time.monotonic() - began)
            await _store_step(cells.source, move, previous, step)


async def _store_step(source: Database, move: StoredMove, previous: Step, step: Step) -> None:
    if not await source.has_row(
        "UPDATE merchant_move SET step = $3, ended_at = CASE WHEN $4 THEN now() END"
        " WHERE id = $1 AND step = $2 AND ended_at IS NULL RETURNING true",
        *(move.id, previous, step, step is STEPS[-1]),
    ):
        raise fence.Overtaken


async def _lock_open(connection: Connection, move: StoredMove, step: str) -> None:
    """Locks the move in the first cell until the transaction ends. Fails if it is not at the step.

    The session with the command's lock can be lost, and another command can continue the move.
    """
    if not await connection.has_row(
        "SELECT true FROM merchant_move WHERE id = $1 AND step = $2 AND ended_at IS NULL FOR SHARE",
        *(move.id, step),
    ):
        raise fence.Overtaken


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
            f"{move.to_cell} acts for the merchant since {row['activated_at']:%Y-%m-%d %H:%M:%S},"
            f" but this cell's database only knows its step {move.step}. It was recovered to an"
            " earlier moment, so the move cannot continue."
        )


@contextlib.asynccontextmanager
async def _alone(cells: Cells, move: StoredMove) -> AsyncIterator[None]:
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


async def abort(cells: Cells, move: StoredMove) -> None:
    """Takes the move back, unless the second cell already acts for the merchant."""
    async with _alone(cells, move):
        await _repeat(lambda: _abort(cells, move))


async def _abort(cells: Cells, move: StoredMove) -> None:
    source, target, merchant_id = cells.source, cells.target, move.merchant_id
    current = await find_open(source, merchant_id)
    if current is None or current.id != move.id:
        raise fence.Overtaken
    await _store_move(target, move)  # so that a command that was overtaken does not store it later
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
    oid = await replication.subscription_oid(target, merchant_id) or await _stored_oid(source, move)
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
        await _announce(connection, move.merchant_id)
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
    await _audit(connection, "cell.move.abort", move.merchant_id, move.id, *names)


async def _store_move(target: Database, move: StoredMove) -> None:
    names = (move.from_cell, move.to_cell)
    await target.execute(_STORE, move.id, move.merchant_id, *names, Step.CHECK)


class _Runner:
    def __init__(self, cells: Cells, move: StoredMove) -> None:
        self._cells = cells
        self._source, self._target = cells.source, cells.target
        self._move, self._merchant_id = move, move.merchant_id
        self._digested: list[chain.ArrivedRange] = []

    async def run(self, step: Step) -> None:
        await getattr(self, f"_{step}")()

    async def _verify(self) -> None:
        await comparison.verify_books(self._cells.urls[0], self._move.from_cell)

    async def _prepare(self) -> None:
        """Fences the merchant in the second cell, and removes the copy from an earlier move."""
        await _store_move(self._target, self._move)
        await retry(self._expect)
        await fence.create_triggers(self._target)
        await retry(self._clear)
        async with self._source.transaction() as connection:
            await self._put(connection, Step.VERIFY, "copying", after=(None, "copying"))
        await fence.create_triggers(self._source)

    async def _expect(self) -> None:
        async with self._target.transaction() as connection:
            await self._lock_move(connection)
            state = await fence.state(connection, self._merchant_id)
            if state == "arriving":
                return
            problem = await checks.find_arrival_problem(
                connection, self._merchant_id, self._move.from_cell
            )
            if problem is not None:
                raise CannotMove(problem)
            if state is not None:
                await connection.execute(
                    "UPDATE merchant_move SET facts = '{\"returns\": true}' WHERE id = $1",
                    self._move.id,
                )
            of_copy = (None, *fence.COPIES)
            await fence.put(
                connection, self._merchant_id, self._move.from_cell, "arriving", after=of_copy
            )
            await connection.execute(
                """
                UPDATE merchant_fence SET
                       after_id = (SELECT coalesce(max(posting_id), 0) FROM entry
                                    WHERE merchant_id = $1),
                       after_event = (SELECT coalesce(max(id), 0) FROM case_event
                                       WHERE merchant_id = $1)
                 WHERE merchant_id = $1""",
                self._merchant_id,
            )

    async def _clear(self) -> None:
        async with self._target.transaction() as connection:
            await fence.pass_fence(connection, self._merchant_id)
            await self._lock_move(connection)
            if await fence.state(connection, self._merchant_id) != "arriving":
                raise CannotMove("The second cell is not prepared for the merchant.")
            await rows.remove_copy(connection, self._merchant_id, with_small=False)
            await rows.copy_small_tables(self._source, connection, self._merchant_id)
            await _announce(connection, self._merchant_id)

    async def _put(
        self, connection: Connection, step: Step, new: str, *, after: tuple[str | None, ...]
    ) -> None:
        """Sets the fence in the first cell, if `step` is the last step that has ended."""
        await _lock_open(connection, self._move, step)
        await fence.put(connection, self._merchant_id, self._move.to_cell, new, after=after)

    async def _publish(self) -> None:
        after = await self._after()
        await replication.publish(
            self._source, self._merchant_id, after["after_id"], after["after_event"]
        )

    async def _after(self) -> Any:
        return await self._target.record(
            "SELECT after_id, after_event FROM merchant_fence WHERE merchant_id = $1",
            self._merchant_id,
        )

    async def _copy(self) -> None:
        """Copies the rows while the merchant works as before, and prepares the cut-over."""
        source, target, merchant_id = self._source, self._target, self._merchant_id
        await replication.subscribe(target, merchant_id, self._cells.source_url)
        oid = await replication.subscription_oid(target, merchant_id)
        await source.execute(
            "UPDATE merchant_move SET facts = facts"
            " || jsonb_build_object('subscription', $2::bigint) WHERE id = $1",
            *(self._move.id, oid),
        )
        await replication.wait_for_copy(target, merchant_id)
        after_id = (await self._after())["after_id"]
        while not await chain.covers(target, merchant_id, after_id):
            await chain.extend(target)
            await asyncio.sleep(POLL_SECONDS)
        await retry(lambda: rows.begin_epoch(source, target))
        await retry(lambda: rows.raise_numbers(source, target, merchant_id, POSTING_MARGIN))
        final_id = None
        while final_id is None:  # each call waits for a while
            final_id = await chain.final_id(source)
        await self._wait_until_now()
        await self._digest(final_id)
        # The cut-over starts when the second cell is not behind.
        await self._wait_until_now()

    async def _wait_until_now(self) -> None:
        marker = f"{self._move.id}:{ids.new_key('')}"
        await replication.wait_for_changes(self._source, self._target, self._merchant_id, marker)

    async def _digest(self, last_id: int = HIGHEST_ID) -> None:
        """Computes the content of the links of the arrived postings, as far as they are new.

        `last_id`: an id up to which all postings have arrived. After the activation, the second
        cell has no fence, and the links are stored already.
        """
        after = await self._after()
        if after is None:
            return
        after_id = self._digested[-1].last_id if self._digested else after["after_id"]
        async with self._target.read_only() as connection:
            self._digested += await chain.digest_arrival(
                connection, self._merchant_id, after_id, last_id
            )

    async def _close(self) -> None:
        """Makes the API and the pages of the first cell reject the merchant's requests."""
        # The copy can take hours, in which keys, accounts and methods can change. Members whose
        # email address was used to sign up in the meantime are invited.
        await checks.check(
            *(self._source, self._target, self._cells.keyring),
            *(self._merchant_id, self._move.to_cell),
            invites=True,
            is_copied=True,
        )
        async with self._source.transaction() as connection:
            await self._put(connection, Step.COPY, "closing", after=("copying", "closing"))
            await connection.execute(
                "UPDATE merchant_move SET closed_at = coalesce(closed_at, now()) WHERE id = $1",
                self._move.id,
            )
        await changes.known_everywhere()

    async def _drain(self) -> None:
        """Takes waiting jobs away, and lets workers finish the jobs that they hold."""
        ends = time.monotonic() + DRAIN_SECONDS
        while await fence.take_jobs(self._source, self._merchant_id, with_held=False):
            if time.monotonic() > ends:
                return  # the fence stops the worker, and the second cell queries the outcome
            await asyncio.sleep(POLL_SECONDS)

    async def _fence(self) -> None:
        await retry(self._leave)
        await retry(lambda: fence.take_jobs(self._source, self._merchant_id, with_held=True))

    async def _leave(self) -> None:
        async with self._source.transaction() as connection:
            await connection.execute(fence.LOCK_TIMEOUT)
            await self._put(connection, Step.DRAIN, "leaving", after=("closing", "leaving"))

    async def _catch_up(self) -> None:
        source, target, merchant_id = self._source, self._target, self._merchant_id
        await replication.wait_for_changes(source, target, merchant_id, self._move.id)
        await retry(lambda: rows.begin_epoch(source, target))
        await retry(lambda: rows.raise_numbers(source, target, merchant_id))
        await comparison.compare(source, target, merchant_id)

    async def _disconnect(self) -> None:
        oid = await _stored_oid(self._source, self._move)
        await replication.unsubscribe(self._target, self._merchant_id)
        await replication.unpublish(self._source, self._merchant_id, oid)

    async def _activate(self) -> None:
        """Lets the second cell act for the merchant, in one transaction."""
        await self._digest()
        await retry(self._arrive)

    async def _arrive(self) -> None:
        source, merchant_id, move = self._source, self._merchant_id, self._move
        async with self._target.transaction() as connection:
            await fence.pass_fence(connection, merchant_id)
            if await self._lock_move(connection) is not None:
                return  # an earlier run has committed this transaction
            # An abort opens this fence only after it has marked the move, which is locked here.
            if await fence.state(source, merchant_id) != "leaving":
                raise fence.Overtaken
            await rows.copy_small_tables(source, connection, merchant_id)
            await team.copy(source, connection, self._cells.keyring, merchant_id)
            jobs = await source.value(
                "SELECT coalesce(jsonb_agg(to_jsonb(j)), '[]')::text FROM moved_job j"
                " WHERE merchant_id = $1",
                merchant_id,
            )
            await connection.execute(
                "INSERT INTO moved_job SELECT * FROM"
                " jsonb_populate_recordset(NULL::moved_job, $1::jsonb) ON CONFLICT DO NOTHING",
                jobs,
            )
            links = await chain.add_arrival(connection, merchant_id, self._digested)
            await clearing.add_merchant(connection, merchant_id, 1)
            await fence.return_jobs(connection, merchant_id)
            await registry.record_home(connection, merchant_id, move.to_cell)
            await fence.remove(connection, merchant_id, after=("arriving",))
            await _announce(connection, merchant_id)
            await connection.execute(
                "UPDATE merchant_move SET activated_at = now(), ended_at = now() WHERE id = $1",
                move.id,
            )
            names = (move.from_cell, move.to_cell)
            await _audit(connection, "cell.move.arrive", merchant_id, move.id, *names, links)

    async def _lock_move(self, connection: Connection) -> datetime | None:
        """Locks the move in the second cell, and returns when it was activated.

        A cell has at most one open move of a merchant, so this one cannot start or end meanwhile.
        """
        row = await connection.record(
            "SELECT activated_at, was_aborted FROM merchant_move WHERE id = $1 FOR UPDATE",
            self._move.id,
        )
        if row is None:
            raise MoveIsOpen(f"{self._move.to_cell} has another move of the merchant.")
        if row["was_aborted"]:
            raise IsTakenBack
        found: datetime | None = row["activated_at"]
        return found

    async def _depart(self) -> None:
        await retry(self._record_departure)
        await fence.create_triggers(self._target)

    async def _record_departure(self) -> None:
        merchant_id, move = self._merchant_id, self._move
        activated_at = await self._target.value(
            "SELECT activated_at FROM merchant_move WHERE id = $1", move.id
        )
        if activated_at is None:
            raise CannotMove("The second cell does not act for the merchant yet.")
        async with self._source.transaction() as connection:
            await fence.pass_fence(connection, merchant_id)
            if await fence.state(connection, merchant_id) == "left":
                return
            await clearing.add_merchant(connection, merchant_id, -1)
            await registry.record_home(connection, merchant_id, move.to_cell)
            await self._put(connection, Step.ACTIVATE, "left", after=("leaving",))
            await fence.delete_jobs(connection, merchant_id)
            for table in ("session", "membership"):
                await connection.execute(f"DELETE FROM {table} WHERE merchant_id = $1", merchant_id)
            await _announce(connection, merchant_id)
            await connection.execute(
                "UPDATE merchant_move SET activated_at = $2 WHERE id = $1", move.id, activated_at
            )
            names = (move.from_cell, move.to_cell)
            await _audit(connection, "cell.move.depart", merchant_id, move.id, *names)

    async def _verify_again(self) -> None:
        await comparison.verify_books(self._cells.urls[1], self._move.to_cell)
        await comparison.verify_books(self._cells.urls[0], self._move.from_cell)


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


async def _stored_oid(source: Database, move: StoredMove) -> int | None:
    found: int | None = await source.value(
        "SELECT (facts ->> 'subscription')::bigint FROM merchant_move WHERE id = $1", move.id
    )
    return found


async def _announce(connection: Connection, merchant_id: int) -> None:
    """Makes the processes of a cell read the merchant again."""
    version = await changes.announce(connection, changes.MERCHANTS)
    await merchants.touch_merchant(connection, merchant_id, version)


async def _audit(
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


async def _repeat(work: Callable[[], Awaitable[None]]) -> None:
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
