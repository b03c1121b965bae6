"""What a test checks after a move: the payouts, the transfers, the events and the books."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from manilla.cells.moving.stored import Step
from tests.moving.movers import Mover
from tests.support.waiting import until

EVENTS = "/api/v1/events?limit=2"
OTHERS_ARE_COPIED = """
    SELECT count(*) > 1 AND count(*) FILTER (WHERE srsubstate <> 'r') = 1
      FROM pg_subscription_rel"""


async def prepare(mover: Mover) -> tuple[str, str]:
    """Returns a completed payout and a payout that is not sent yet."""
    return await pay(mover, "lagos"), await mover.payers["lagos"].pay_out()


async def pay(mover: Mover, cell: str) -> str:
    trx_id = await mover.payers[cell].pay_out()
    await mover.payers[cell].until(trx_id, "completed")
    return trx_id


@contextlib.asynccontextmanager
async def stopped_copy(mover: Mover) -> AsyncIterator[asyncio.Task[None]]:
    """Starts a move, and stops the copy of its last table in this block."""
    await mover.move_until(Step.PUBLISH)
    target = mover.owners["abuja"]
    async with target.transaction() as connection:
        await connection.execute("LOCK TABLE payout IN SHARE MODE")
        moving = asyncio.create_task(mover.resume())
        await until(lambda: target.value(OTHERS_ARE_COPIED))
        yield moving


async def check(mover: Mover, cell: str, payouts: tuple[str, ...]) -> None:
    """Checks that each payout is sent once by the end, that all books are correct, and that
    nothing of the move is left.
    """
    for trx_id in payouts:
        await mover.payers[cell].until(trx_id, "completed")
    assert len(await mover.payers["lagos"].transfers()) == len(payouts)
    for name in ("lagos", "abuja"):
        assert await mover.broken(name) == []
    assert await mover.is_clean()


async def events(mover: Mover, cell: str, cursor: str | None) -> tuple[list[Any], str | None]:
    """Returns all events after a cursor, and the cursor after them."""
    found: list[Any] = []
    while True:
        path = EVENTS if cursor is None else f"{EVENTS}&cursor={cursor}"
        reply = await mover.payers[cell].merchant.get(path)
        assert reply.status == 200, reply.body
        if not reply.json["data"]:
            return found, cursor
        found += [event["id"] for event in reply.json["data"]]
        cursor = reply.json["next_cursor"] or cursor
        if reply.json["next_cursor"] is None:
            return found, cursor
