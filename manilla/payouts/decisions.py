"""Administrators' decisions on manual payouts and on stuck automatic payouts.

If a payout was sent more than once, a rejection by the provider is not conclusive. A payout that
its provider does not know would then stay open forever. After a day, an administrator can reject
the payout if it has a `no_answer` case, no send is in transit, and the provider responds at that
moment that it does not know the transfer. An administrator can reject a payout at any time if it
was never sent because the merchant's money is on hold.
"""

from collections.abc import Iterable
from datetime import timedelta

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit import jobs
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job
from manilla.kit.jobs.claims import hold_job
from manilla.kit.texts import is_line
from manilla.ledger import trx_ids
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts import left_rails, states, store
from manilla.payouts.initiate import SEND
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.payouts.states import NEXT
from manilla.providers.port import (
    Done,
    RefusalCode,
    Refused,
    TransferState,
    TransferStatus,
    Unknown,
    WebhookSubject,
)
from manilla.providers.rails import Rails
from manilla.transfers import reports, sending
from manilla.transfers.events import Source, TransferEvent, TransferResult
from manilla.transfers.sending import PAYOUTS

# A transfer that has not reached the provider within this time will never reach it.
# A call to a provider takes at most 15 seconds.
QUIET = timedelta(minutes=10)
TEXT_LENGTH_MAX = 200
# An automatic payout with an open case of one of these kinds can be rejected.
STUCK = (CaseKind.NO_ANSWER, CaseKind.NOT_AS_ACCEPTED)


CHANGED = (
    "This payout was changed in the database after it was accepted. Do not pay it. If you have "
    "paid it already, confirm that."
)


class PayoutNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such payout."


class NotToDecide(Refusal):
    message = "An administrator cannot decide on this payout."


class OnHold(NotToDecide):
    code = "PAYOUT_ON_HOLD"
    message = "The payout is on hold: do not pay it."


async def find(db: Database | Connection, trx_id: str) -> Payout:
    merchant_id = trx_ids.merchant_of(trx_id)
    payout = None if merchant_id is None else await store.payout(db, merchant_id, trx_id)
    if payout is None:
        raise PayoutNotFound(f"There is no payout {trx_id}.")
    return payout


async def complete(
    db: Database, trx_id: str, bank_reference: str | None, *, already_paid: bool = False
) -> Payout:
    """Records that the administrator has paid a manual payout.

    `already_paid`: the administrator paid before seeing the hold. This must be recorded even during
    a hold, or a later rejection would refund money that was already paid out.
    """
    if bank_reference is not None:
        check_text(bank_reference, "A bank reference")
    payout = await find(db, trx_id)
    hold = await hold_of(db, payout)
    if payout.is_manual and hold is not None and not already_paid:
        raise OnHold(
            f"{hold.text} Do not pay this payout: wait, or reject it. "
            "If you have paid it already, confirm that."
        )
    if payout.is_manual and not (already_paid or await is_as_accepted(db, payout)):
        raise NotToDecide(CHANGED)
    event = TransferResult(
        TransferEvent.DELIVERED, Source.ADMINISTRATOR, bank_reference=bank_reference
    )
    return await _decide(db, payout, event, may_decide=payout.is_manual)


async def is_as_accepted(db: Database, payout: Payout) -> bool:
    return await sending.is_unchanged(db, PAYOUTS, payout)


async def reject(db: Database, rails: Rails, trx_id: str, reason: str) -> Payout:
    """Rejects a payout, if an administrator may reject it. Refunds the wallet exactly once."""
    payout = await find(db, trx_id)
    check_text(reason, "A reason")
    if payout.is_manual or payout.is_sandbox:
        may_decide = payout.is_manual or await hold_of(db, payout) is not None
        return await _decide(db, payout, _rejection(reason), may_decide=may_decide)
    await _check_stuck(db, payout)
    async with hold_job(db, payout.merchant_id, SEND, trx_id) as job:
        if job is None:
            raise NotToDecide("A worker is processing the payout: try again in a minute.")
        # From here on, no worker can send the payout or move it to another rail.
        # `_check_quiet` ensures that an earlier request had time to reach the provider.
        payout = await find(db, trx_id)
        if doubt := await left_rails.doubt(db, rails, payout):
            raise NotToDecide(doubt)
        await _check_quiet(db, payout)
        await _end(db, payout, job, await _ending(db, rails, payout, reason))
    return await find(db, trx_id)


async def _check_stuck(db: Database, payout: Payout) -> None:
    _check_pending(payout)
    if await hold_of(db, payout) is not None:
        return  # a payout on hold has never been sent, and cannot be sent now
    for kind in STUCK:
        if await cases.is_open(db, payout.merchant_id, kind, payout.trx_id):
            return
    raise NotToDecide(
        "The provider decides the outcome of this payout. You can reject it only if it has an "
        f"open case of the kind {' or '.join(STUCK)}, or if it is on hold."
    )


async def _check_quiet(db: Database, payout: Payout) -> None:
    await _check_not_just_sent(db, payout)
    said = {
        claim.status
        for claim in await reports.claims_about(db, WebhookSubject.TRANSFER, payout)
        if claim.status
    }
    if not said <= {TransferStatus.FAILED}:
        raise NotToDecide(
            f"A signed webhook says that the transfer exists: {', '.join(sorted(said))}."
        )


async def _check_not_just_sent(db: RowSource, payout: Payout) -> None:
    if await store.was_sent_within(db, payout, QUIET):
        minutes = QUIET.seconds // 60
        raise NotToDecide(
            f"The payout was sent within the last {minutes} minutes and may still arrive: "
            "try again later."
        )


async def _ending(db: Database, rails: Rails, payout: Payout, reason: str) -> TransferResult:
    """Returns the event that ends a payout that is unsent, failed, or unknown to its provider.

    Raises `NotToDecide` if the provider has the transfer or returns no usable response.
    """
    current = await find(db, payout.trx_id)
    hold = await hold_of(db, current)
    event = TransferEvent.FAILED if hold is None else TransferEvent.REJECTED
    if current.began_at is None and hold is not OutgoingHold.PAYOUTS_HELD:
        # Only the job's holder can send the payout. We hold the job, so the payout was never sent.
        # The hold after a restore is excluded: the payout may have been sent after the backup.
        return _rejection(reason, event, "; it was never sent")
    state = await _ask(rails, payout)
    if state.status is TransferStatus.FAILED and state.amount in (None, payout.amount):
        return TransferResult(
            TransferEvent.FAILED,
            Source.STATUS_QUERY,
            RefusalCode.GATEWAY_PAYOUT_FAILED,
            state.message or None,
        )
    if state.status is TransferStatus.NOT_FOUND:
        return _rejection(reason, event, "; the provider knows no such transfer")
    raise NotToDecide(
        f"The provider says that the transfer is {state.status}: nothing was changed."
    )


def _rejection(
    reason: str, event: TransferEvent = TransferEvent.REJECTED, circumstance: str = ""
) -> TransferResult:
    return TransferResult(
        event,
        Source.ADMINISTRATOR,
        RefusalCode.PAYOUT_FAILED,
        reason,
        circumstance=circumstance,
    )


async def _ask(rails: Rails, payout: Payout) -> TransferState:
    provider = payout.provider or ""
    match await rails.state(WebhookSubject.TRANSFER, provider, payout.trx_id, payout.known_as):
        case Done(state):
            return state
        case Refused(_, reason) | Unknown(reason):
            raise NotToDecide(f"{provider} gave no usable answer: {reason}.")


async def _end(db: Database, payout: Payout, job: Job, event: TransferResult) -> None:
    merchant_id, trx_id = payout.merchant_id, payout.trx_id
    async with db.transaction() as connection:
        await store.payout(connection, merchant_id, trx_id, lock=True)
        # A worker that stalled, and whose lease has ended, may have marked the payout as sent in a
        # transaction that was not yet committed when this decision was checked.
        await _check_not_just_sent(connection, payout)
        if not await states.apply_result_within(connection, merchant_id, trx_id, event, holder=job):
            raise NotToDecide("The payout has changed in the meantime: check its status.")
        resolution = f"payout rejected: {event.guidance or event.source_text}"
        for kind in STUCK:
            await cases.close(connection, merchant_id, kind, trx_id, resolution)
        await _record(connection, payout, event, source=event.source_text)


def _is_unsent(payout: Payout) -> bool:
    return payout.status is PayoutStatus.PENDING and payout.began_at is None


async def hold_of(db: Database, payout: Payout) -> OutgoingHold | None:
    """Returns why an unsent payout is on hold, or None if it is not on hold or was sent."""
    if not _is_unsent(payout):
        return None
    return await outgoing.hold(db, payout.merchant_id, payout.environment)


async def holds_of(db: RowSource, payouts: Iterable[Payout]) -> dict[str, OutgoingHold]:
    """Maps transaction ids of unsent payouts to their holds. Omits payouts that are not on hold."""
    unsent = [
        each for each in payouts if each.status is PayoutStatus.PENDING and each.began_at is None
    ]
    holds = await outgoing.holds(db, {(each.merchant_id, each.environment) for each in unsent})
    found = {each.trx_id: holds.get((each.merchant_id, each.environment)) for each in unsent}
    return {trx_id: hold for trx_id, hold in found.items() if hold is not None}


async def requeue(db: Database, trx_id: str) -> Payout:
    """Makes an open automatic payout's job due now, even if the job has failed."""
    payout = await find(db, trx_id)
    _check_pending(payout)
    if payout.is_manual or payout.is_sandbox:
        raise NotToDecide("Only automatic payouts in production can be requeued.")
    async with db.transaction() as connection:
        await jobs.put(connection, payout.merchant_id, SEND, payout.trx_id)
        await audit.record(
            connection,
            "payout.requeue",
            f"payout:{payout.trx_id}",
            merchant_id=payout.merchant_id,
        )
    return payout


async def decision(db: Database, payout: Payout) -> str | None:
    """Returns a sentence about the administrator's decision, or None if there is no decision."""
    about = AuditFilter(
        action="payout", merchant_id=payout.merchant_id, subject=f"payout:{payout.trx_id}"
    )
    for line in await audit.list_entries(db, about):
        match line.action:
            case "payout.complete":
                reference = line.detail.get("bank_reference")
                under = f", bank reference {reference}" if reference else ""
                return f"{line.actor_name} paid the payout{under}."
            case "payout.reject":
                return f"{line.actor_name} rejected the payout: {line.detail.get('reason')}"
    return None


async def _decide(
    db: Database, payout: Payout, event: TransferResult, *, may_decide: bool
) -> Payout:
    if not may_decide:
        raise NotToDecide("The provider decides the outcome of this payout.")
    _check_pending(payout)
    async with db.transaction() as connection:
        if not await states.apply_result_within(
            connection, payout.merchant_id, payout.trx_id, event
        ):
            # Another administrator may have decided on the payout a moment earlier.
            current = await find(connection, payout.trx_id)
            raise NotToDecide(f"The payout is {current.status} already.")
        await _record(connection, payout, event, bank_reference=event.bank_reference)
    return await find(db, payout.trx_id)


async def _record(
    connection: Connection, before: Payout, event: TransferResult, **more: str | None
) -> None:
    is_paid = event.event is TransferEvent.DELIVERED
    await audit.record(
        connection,
        "payout.complete" if is_paid else "payout.reject",
        f"payout:{before.trx_id}",
        merchant_id=before.merchant_id,
        changed={"status": {"before": before.status, "after": NEXT[before.status, event.event]}},
        amount=before.amount,
        reason=event.guidance,
        **more,
    )


def _check_pending(payout: Payout) -> None:
    if payout.status is not PayoutStatus.PENDING:
        raise NotToDecide(f"The payout is {payout.status} already.")


def check_text(text: str, what: str) -> None:
    if not is_line(text, TEXT_LENGTH_MAX):
        raise NotToDecide(f"{what} must have 1 to {TEXT_LENGTH_MAX} printable characters.")
