"""The database rejects changes by the first cell after the fence, and by the second before it."""

from typing import Any

import asyncpg
import pytest

from manilla.cells.moving.stored import Step
from manilla.kit import jobs
from manilla.kit.jobs import claims
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.payouts.initiate import SEND
from tests.faults import transfer_webhooks
from tests.faults.stalled_worker import StalledWorker, end_lease
from tests.faults.stalled_worker import Step as WorkerStep
from tests.moving.movers import Mover


async def _fund(mover: Mover, cell: str) -> None:
    """Posts to the merchant's wallet as a process does that does not know of the move."""
    money = Money.of("1", "NGN")
    await wallets.fund(
        mover.db(cell), mover.merchant_id, mover.payers["lagos"].merchant.environment, money, "x"
    )


async def _is_rejected(mover: Mover, cell: str) -> None:
    """Checks that no process of the cell can move money, claim a job or change the merchant."""
    db, merchant_id = mover.db(cell), mover.merchant_id
    before = await mover.balance(cell)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await _fund(mover, cell)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):
        await db.execute("UPDATE merchant SET payouts_enabled = true WHERE id = $1", merchant_id)
    await db.execute(
        "INSERT INTO job (merchant_id, kind, subject, due_at) VALUES ($1, 'transfer', 'x', now())",
        merchant_id,
    )
    claimed = await claims.claim(db, {"transfer": 50})
    assert [job for job in claimed if job.merchant_id == merchant_id] == []
    assert await mover.balance(cell) == before
    for reply in (await mover.payers[cell].ask(), await mover.payers[cell].verify("TXNX")):
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")


async def test_only_one_cell_can_act_at_any_time(mover: Mover) -> None:
    await mover.payers["lagos"].pay_out()
    await mover.move_until(Step.COPY)
    await _is_rejected(mover, "abuja")
    await _fund(mover, "lagos")
    await mover.abort()
    await mover.move_until(Step.DISCONNECT)
    await _is_rejected(mover, "lagos")
    await _is_rejected(mover, "abuja")
    await mover.resume()
    await _is_rejected(mover, "lagos")
    await _fund(mover, "abuja")
    assert await mover.broken("abuja") == []


async def test_a_move_keeps_other_merchants_out_of_the_fence(mover: Mover) -> None:
    other = await mover.other_merchant("lagos")
    await mover.move_until(Step.FENCE)
    trx_id = await other.pay_out()
    await other.until(trx_id, "completed")
    await mover.resume()
    assert (await other.verify(trx_id)).status == 200


@pytest.mark.parametrize(
    "step",
    [
        WorkerStep.BEFORE_BEGIN,
        WorkerStep.BEFORE_SEND,
        WorkerStep.BEFORE_SAVE,
    ],
)
async def test_a_stalled_workers_payout_is_sent_exactly_once(
    mover: Mover, step: WorkerStep
) -> None:
    """The worker resumes when the merchant lives in the other cell, which follows the payout.

    A webhook that arrives earlier does not make the other cell query the payout before the worker's
    request must have ended. Otherwise, it could send the payout at the same time.
    """
    lagos, abuja = mover.payers["lagos"], mover.payers["abuja"]
    trx_id = await lagos.pay_out()
    worker = StalledWorker(lagos.services, step)
    await worker.stall(lease_ends=False)
    await mover.move()
    was_marked = step is not WorkerStep.BEFORE_BEGIN
    before = await lagos.calls()
    await jobs.put(mover.db("abuja"), mover.merchant_id, SEND, trx_id)
    await abuja.simulator.run_jobs()
    assert await lagos.calls() == before
    await worker.resume()
    sent = len(await lagos.transfers())
    assert sent == (1 if was_marked else 0)
    await end_lease(mover.db("abuja"), trx_id)
    await abuja.check_until(trx_id, "completed")
    assert len(await lagos.transfers()) == 1
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []


async def test_a_webhook_waits_for_the_move_and_then_follows_the_merchant(mover: Mover) -> None:
    lagos = mover.payers["lagos"]
    trx_id = await lagos.pay_out()
    message = transfer_webhooks.transfer("a", trx_id, "success")

    async def send() -> Any:
        return await transfer_webhooks.send_webhook(mover.pair.lagos.site, "a", message)

    await mover.move_until(Step.FENCE)
    reply = await send()
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    await mover.resume()
    assert (await send()).status == 200
    stored = "SELECT count(*) FROM webhook WHERE reference = $1"
    assert await mover.db("abuja").number(stored, trx_id) == 1
    assert await mover.db("lagos").number(stored, trx_id) == 0
