"""A transfer that a worker is sending when its merchant moves is not sent again too early."""

import asyncio

from manilla.cells.moving import fence
from manilla.kit.database.connections import Database
from manilla.kit.jobs import put
from manilla.payouts.initiate import SEND
from tests.faults.stalled_worker import end_lease
from tests.payouts.conftest import payer, simulator
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support import clock
from tests.support.waiting import until

__all__ = ["payer", "simulator"]


async def _return_jobs(owner: Database, merchant_id: int) -> None:
    """Gives the merchant's jobs to the workers, as the activation in the second cell does."""
    async with owner.transaction() as connection:
        await fence.return_jobs(connection, merchant_id)


async def test_a_transfer_is_not_sent_again_while_the_first_request_waits_for_the_provider(
    payer: PayoutMerchant, owner: Database
) -> None:
    merchant_id = payer.merchant.new.id
    hanging = {"call": "transfer", "fault": "timeout_before"}
    await payer.simulator.control("a/faults", {"next": [hanging]})
    trx_id = await payer.pay_out()
    worker = asyncio.create_task(payer.simulator.run_jobs())

    async def has_arrived() -> bool:
        return "transfer" in await payer.calls()

    await until(has_arrived)
    calls = await payer.calls()
    assert await fence.take_jobs(owner, merchant_id, with_held=False) == 1
    assert await fence.take_jobs(owner, merchant_id, with_held=True) == 0
    await _return_jobs(owner, merchant_id)
    await put(payer.services.db, merchant_id, SEND, trx_id)  # as a webhook does
    await payer.simulator.run_jobs()
    assert await payer.calls() == calls
    clock.end_calls()
    await worker
    await end_lease(payer.services.db, trx_id)
    await payer.until(trx_id, "completed")
    assert len(await payer.transfers()) == 1


async def test_a_job_that_no_worker_held_runs_immediately(
    payer: PayoutMerchant, owner: Database
) -> None:
    trx_id = await payer.pay_out()
    assert await fence.take_jobs(owner, payer.merchant.new.id, with_held=True) == 0
    await _return_jobs(owner, payer.merchant.new.id)
    await payer.until(trx_id, "completed")
