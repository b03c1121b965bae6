"""Lets an administrator reject a payout that its provider does not know, or that was never sent.

A rejection of a repeated send is not conclusive, so such a payout would stay open forever. An
administrator can reject it after a day if a case says that it is stuck, nothing is in transit any
more, and the provider says at that moment that it does not know the transfer. A payout that was
never sent because its merchant's money is on hold can be rejected at any time.
"""

from datetime import timedelta

from manilla.audit import audit
from manilla.cases import cases
from manilla.cases.cases import Kind
from manilla.kit.db import Database
from manilla.kit.jobs import Job
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts import manual, queries, sending, states
from manilla.payouts.manual import NotToDecide
from manilla.payouts.payout import Payout, PayoutErrorCode, PayoutStatus
from manilla.payouts.states import ADMINISTRATOR, NEXT, Event, News
from manilla.providers.port import (
    Done,
    Provider,
    Refused,
    TransferState,
    TransferStatus,
    Unknown,
)
from manilla.providers.rails import Rails

# A transfer that was sent has arrived by then, or never will: one call takes at most 15 seconds.
QUIET = timedelta(minutes=10)


async def reject(db: Database, rails: Rails, trx_id: str, reason: str) -> Payout:
    """Rejects any payout that an administrator may reject, and refunds the wallet once."""
    payout = await manual.find(db, trx_id)
    if payout.is_manual or payout.is_sandbox:
        return await manual.reject(db, trx_id, reason)
    manual.check_text(reason, "A reason")
    await _check_stuck(db, payout)
    job = await sending.hold(db, payout.merchant_id, trx_id)
    if job is None:
        raise NotToDecide("A worker is processing the payout: try again in a minute.")
    try:
        # From here on no worker can send the payout. An earlier send must have had time to arrive.
        await _check_quiet(db, payout)
        await _end(db, payout, job, await _ending(db, rails, payout, reason))
    finally:
        await sending.release(db, job)
    return await manual.find(db, trx_id)


async def _check_stuck(db: Database, payout: Payout) -> None:
    if payout.status is not PayoutStatus.PENDING:
        raise NotToDecide(f"The payout is {payout.status} already.")
    if await manual.hold_of(db, payout) is not None:
        return  # it was never sent, and cannot be sent during the hold
    if not await cases.is_open(db, payout.merchant_id, Kind.NO_ANSWER, payout.trx_id):
        raise NotToDecide(
            "The provider decides the outcome of this payout. You can reject it only if it has an "
            "open no_answer case, or if it is on hold."
        )


async def _check_quiet(db: Database, payout: Payout) -> None:
    if await queries.was_sent_within(db, payout, QUIET):
        minutes = QUIET.seconds // 60
        raise NotToDecide(
            f"The payout was sent within the last {minutes} minutes and may still arrive: "
            "try again later."
        )
    said = {claim.status for claim in await states.claims_about(db, payout) if claim.status}
    if not said <= {TransferStatus.FAILED}:
        raise NotToDecide(
            f"A signed webhook says that the transfer exists: {', '.join(sorted(said))}."
        )


async def _ending(db: Database, rails: Rails, payout: Payout, reason: str) -> News:
    """Returns the event that ends the payout: it was never sent, has failed, or is unknown.

    Raises `NotToDecide` if the provider has the transfer or gives no usable answer.
    """
    current = await manual.find(db, payout.trx_id)
    hold = await manual.hold_of(db, current)
    event = Event.FAILED if hold is None else Event.REJECTED
    if current.began_at is None and hold is not OutgoingHold.PAYOUTS_HELD:
        # Only the holder of the job can start to send, and we hold it, so the payout was never
        # sent. This does not apply while all payouts are on hold, because the database may then be
        # older than a send.
        source = f"{ADMINISTRATOR}; it was never sent"
        return News(event, source, PayoutErrorCode.PAYOUT_FAILED, reason)
    state = await _ask(rails, payout)
    if state.status is TransferStatus.FAILED and state.amount in (None, payout.amount):
        guidance = state.message or None
        source = "status query"
        return News(Event.FAILED, source, PayoutErrorCode.GATEWAY_PAYOUT_FAILED, guidance)
    if state.status is TransferStatus.NOT_FOUND:
        source = f"{ADMINISTRATOR}; the provider knows no such transfer"
        return News(event, source, PayoutErrorCode.PAYOUT_FAILED, reason)
    raise NotToDecide(
        f"The provider says that the transfer is {state.status}: nothing was changed."
    )


async def _ask(rails: Rails, payout: Payout) -> TransferState:
    adapter = rails.adapter(Provider(payout.provider or ""))
    if adapter is None:
        raise NotToDecide(f"{payout.provider} is not configured, so it cannot be queried.")
    answer = await adapter.transfer_state(payout.trx_id)
    match answer:
        case Done(state):
            return state
        case Refused(_, reason) | Unknown(reason):
            raise NotToDecide(f"{payout.provider} gave no usable answer: {reason}.")


async def _end(db: Database, payout: Payout, job: Job, news: News) -> None:
    merchant_id, trx_id = payout.merchant_id, payout.trx_id
    async with db.transaction() as connection:
        if not await states.settle_within(connection, merchant_id, trx_id, news, holder=job):
            raise NotToDecide("The payout has changed in the meantime: check its status.")
        resolution = f"payout rejected: {news.guidance or news.source}"
        await cases.close(connection, merchant_id, Kind.NO_ANSWER, trx_id, resolution)
        await audit.record(
            connection,
            "payout.reject",
            f"payout:{trx_id}",
            merchant_id=merchant_id,
            changed={"status": {"before": payout.status, "after": NEXT[payout.status, news.event]}},
            amount=payout.amount,
            reason=news.guidance,
            source=news.source,
        )
