"""Postings do not commit in the order of their ids, and a move must miss none of them."""

import asyncio
from typing import Any

import pytest

from manilla.cells.moving import rows
from manilla.cells.moving.stored import Step
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.proofs import chain
from tests.moving.movers import Mover

LAST = "SELECT max(posting_id) FROM entry WHERE merchant_id = $1"


class _LatePosting:
    """A posting that has drawn its id, and is committed when `end` is set."""

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._drawn = asyncio.Event()
        self.end = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        self.task = asyncio.create_task(self._post())
        await self._drawn.wait()

    async def _post(self) -> None:
        mover, money = self._mover, Money.of("1", "NGN")
        async with mover.db("lagos").transaction() as connection:
            await wallets.fund(connection, mover.merchant_id, Environment.SANDBOX, money, "late")
            self._drawn.set()
            await self.end.wait()

    async def pass_by(self) -> None:
        """Commits a posting with a later id, and waits until it has arrived."""
        mover = self._mover
        await mover.payers["lagos"].pay_out()
        later = await mover.db("lagos").number(LAST, mover.merchant_id)
        while await mover.db("abuja").number(LAST, mover.merchant_id) < later:
            await asyncio.sleep(0.05)


async def test_the_links_cover_a_posting_that_commits_late(
    mover: Mover, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = _LatePosting(mover)
    raise_numbers, open_transactions = rows.raise_numbers, chain._open_transactions

    async def raise_numbers_and_post(*given: Any) -> None:
        await raise_numbers(*given)
        if late.task is None:
            await late.begin()
            await late.pass_by()

    async def end_when_seen(connection: Connection) -> set[str]:
        found = await open_transactions(connection)
        if found and late.task is not None:
            late.end.set()
        return found

    async def end_after_the_copy(step: Step, _seconds: float) -> None:
        if step is Step.COPY:
            late.end.set()

    monkeypatch.setattr(rows, "raise_numbers", raise_numbers_and_post)
    monkeypatch.setattr(chain, "_open_transactions", end_when_seen)
    await mover.move(on_step=end_after_the_copy)
    assert late.task is not None
    await late.task
    assert await mover.broken("abuja") == []
