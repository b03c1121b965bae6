"""Cancels the unsent payouts of a stopped file, and refunds each of them exactly once.

Only the worker that holds a payout's job can send the payout. This code claims the job first, so a
payout is either sent or canceled, never both. Payouts that were sent are not canceled. Manual
payouts are not canceled either, because an administrator may be paying them right now.
"""

from manilla.bulk import store
from manilla.bulk.store import Batch
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.jobs.claims import hold_job
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts import states
from manilla.payouts import store as payouts
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.providers.port import RefusalCode
from manilla.transfers.events import Source, TransferEvent, TransferResult

PAYOUTS_A_STEP = 50
RETRY_SECONDS = 2
WHY = "The merchant stopped the file before this payout was sent."
REMARK = "Not paid: the file was stopped before this payout was sent. The wallet was refunded."


async def cancel_unsent(db: Database, batch: Batch) -> float | None:
    """Cancels some unsent payouts. Returns the seconds until the next step, or None if done."""
    hold = await outgoing.hold(db, batch.merchant_id, batch.environment)
    if hold is OutgoingHold.PAYOUTS_HELD:
        # After a restore, the database may not know that a payout was sent.
        return outgoing.WAIT_SECONDS
    unsent = await store.unsent(db, batch, PAYOUTS_A_STEP)
    canceled = [await _cancel(db, batch, trx_id) for trx_id in unsent]
    if not unsent:
        return None
    return 0 if all(canceled) else RETRY_SECONDS


async def _cancel(db: Database, batch: Batch, trx_id: str) -> bool:
    """Cancels the payout.

    Returns False if that is not possible, for example while it is being sent.
    """
    payout = await payouts.payout(db, batch.merchant_id, trx_id)
    assert payout is not None
    is_sandbox = batch.environment is Environment.SANDBOX
    kind = COMPLETE_IN_SANDBOX if is_sandbox else SEND
    async with hold_job(db, payout.merchant_id, kind, trx_id) as job:
        if job is None:
            return False
        async with db.transaction() as connection:
            return await _cancel_within(connection, batch, payout, job)


async def _cancel_within(connection: Connection, batch: Batch, payout: Payout, job: Job) -> bool:
    current = await payouts.payout(connection, payout.merchant_id, payout.trx_id, lock=True)
    assert current is not None
    if current.status is not PayoutStatus.PENDING or current.began_at is not None:
        return True
    event = TransferResult(TransferEvent.REJECTED, Source.MERCHANT, RefusalCode.PAYOUT_FAILED, WHY)
    key = payout.merchant_id, payout.trx_id
    if not await states.apply_result_within(connection, *key, event, holder=job):
        return False
    await store.take_back(connection, batch, payout.trx_id, REMARK)
    return True
