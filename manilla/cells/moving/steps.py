"""The steps of a move. Each step can run again, so a move continues after a crash."""

import asyncio
from datetime import datetime
from typing import Any

from manilla.cells import registry
from manilla.cells.moving import checks, comparison, fence, replication, rows, team
from manilla.cells.moving.fence import CannotMove, retry
from manilla.cells.moving.stored import (
    Cells,
    IsTakenBack,
    MoveIsOpen,
    Step,
    StoredMove,
    announce,
    lock_open,
    record_audit,
    store_fact,
    store_in_target,
    stored_fact,
)
from manilla.kit import changes, ids
from manilla.kit.database.connections import Connection
from manilla.ledger import clearing
from manilla.proofs import chain
from manilla.proofs.verify import HIGHEST_ID

POLL_SECONDS = 0.05
POSTING_MARGIN = 1_000_000


class StepRunner:
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
        await store_in_target(self._target, self._move)
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
            await announce(connection, self._merchant_id)

    async def _put(
        self, connection: Connection, step: Step, new: str, *, after: tuple[str | None, ...]
    ) -> None:
        """Sets the fence in the first cell, if `step` is the last step that has ended."""
        await lock_open(connection, self._move, step)
        await fence.put(connection, self._merchant_id, self._move.to_cell, new, after=after)

    async def _publish(self) -> None:
        if await replication.is_subscribed(self._target, self._merchant_id):
            # Another slot would lack the changes that were committed before it was created.
            raise replication.SlotLost
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
        if await replication.is_subscribed(target, merchant_id):
            await replication.resume(target, merchant_id)
        else:
            await self._publish()  # a failover can have lost the slot
            await store_fact(source, self._move, "timelines", await self._timelines())
            await replication.subscribe(target, merchant_id, self._cells.source_url)
        oid = await replication.subscription_oid(target, merchant_id)
        await store_fact(source, self._move, "subscription", oid)
        await replication.wait_for_copy(source, target, merchant_id)
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

    async def _timelines(self) -> list[str]:
        return [await replication.timeline(db) for db in (self._source, self._target)]

    async def _wait_until_now(self) -> None:
        marker = f"{self._move.id}:{ids.new_key('')}"
        await replication.wait_for_changes(self._source, self._target, self._merchant_id, marker)

    async def _digest(self, last_id: int = HIGHEST_ID) -> None:
        """Computes the new chain links of the postings that have arrived.

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
        # The cut-over starts when the second cell is not behind.
        await self._wait_until_now()
        async with self._source.transaction() as connection:
            await self._put(connection, Step.COPY, "closing", after=("copying", "closing"))
            await connection.execute(
                "UPDATE merchant_move SET closed_at = coalesce(closed_at, now()) WHERE id = $1",
                self._move.id,
            )
        await changes.known_everywhere()

    async def _drain(self) -> None:
        """Takes waiting jobs away, and lets workers finish the jobs that they hold."""
        await fence.drain(self._source, self._merchant_id)

    async def _fence(self) -> None:
        await retry(self._leave)
        await retry(lambda: fence.take_jobs(self._source, self._merchant_id, with_held=True))

    async def _leave(self) -> None:
        async with self._source.transaction() as connection:
            await connection.execute(fence.LOCK_TIMEOUT)
            await self._put(connection, Step.DRAIN, "leaving", after=("closing", "leaving"))

    async def _catch_up(self) -> None:
        source, target, merchant_id = self._source, self._target, self._merchant_id
        await self._wait_until_now()
        await retry(lambda: rows.begin_epoch(source, target))
        await retry(lambda: rows.raise_numbers(source, target, merchant_id))
        await comparison.compare(source, target, merchant_id)
        if await stored_fact(source, self._move, "timelines") != await self._timelines():
            await self._compare_rows()

    async def _compare_rows(self) -> None:
        """Compares all rows, after a database has failed over during the copy.

        The second cell may have received commits that the first cell's new primary does not have,
        and the digested postings may contain them.
        """
        self._digested.clear()
        after = await self._after()
        await comparison.compare_rows(
            *(self._source, self._target, self._merchant_id),
            replication.appended_after(after["after_id"], after["after_event"]),
        )

    async def _disconnect(self) -> None:
        oid = await stored_fact(self._source, self._move, "subscription")
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
            await announce(connection, merchant_id)
            await connection.execute(
                "UPDATE merchant_move SET activated_at = now(), ended_at = now() WHERE id = $1",
                move.id,
            )
            names = (move.from_cell, move.to_cell)
            await record_audit(connection, "cell.move.arrive", merchant_id, move.id, *names, links)

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
            await announce(connection, merchant_id)
            await connection.execute(
                "UPDATE merchant_move SET activated_at = $2 WHERE id = $1", move.id, activated_at
            )
            names = (move.from_cell, move.to_cell)
            await record_audit(connection, "cell.move.depart", merchant_id, move.id, *names)

    async def _verify_again(self) -> None:
        await comparison.verify_books(self._cells.urls[1], self._move.to_cell)
        await comparison.verify_books(self._cells.urls[0], self._move.from_cell)
