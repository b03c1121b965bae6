"""Administrators' decisions on refunds that workers cannot complete, or that are on hold.

If a refund may have been sent, an administrator can decide on it only if the provider reports at
that moment that the refund failed or is unknown. An administrator who has already paid the customer
can record that in any case.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job
from manilla.kit.jobs.claims import hold_job
from manilla.kit.texts import is_line
from manilla.ledger import trx_ids
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.providers.port import (
    Done,
    RefundState,
    RefusalCode,
    Refused,
    ReportedRefundStatus,
    Unknown,
    WebhookSubject,
)
from manilla.providers.rails import Rails
from manilla.refunds import states, store
from manilla.refunds.postings import RefundRefused
from manilla.refunds.refund import REASON_LENGTH_MAX, SEND, Refund
from manilla.transfers.events import Source, TransferEvent, TransferResult

# An administrator can reject an unsent refund during these holds.
# The hold after a restore is excluded: the refund may have been sent after the backup.
REJECTED_WHILE = frozenset(OutgoingHold) - {OutgoingHold.PAYOUTS_HELD}
NOT_PAID = (ReportedRefundStatus.FAILED, ReportedRefundStatus.NOT_FOUND)
# A refund that has not reached the provider within this time will never reach it.
QUIET = timedelta(minutes=10)
LOOK_UP = "Look the refund up at the provider. If you find none,"
LOOK_UP_AND_PAY = f"{LOOK_UP} pay the customer, then confirm it as already paid."
LOOK_UP_AND_REJECT = f"{LOOK_UP} reject the refund and confirm that you have checked."


class RefundNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such refund."


async def find(db: Database, trx_id: str) -> Refund:
    merchant_id = trx_ids.merchant_of(trx_id)
    refund = None if merchant_id is None else await store.refund(db, merchant_id, trx_id)
    if refund is None:
        raise RefundNotFound(f"There is no refund {trx_id}.")
    return refund


async def confirm(
    db: Database, rails: Rails, trx_id: str, note: str, *, already_paid: bool = False
) -> Refund:
    """Records that an administrator has paid the refund from our bank.

    `already_paid`: the customer has the money, so the payment is recorded without a status query.
    If the provider pays as well, a case is opened.
    """
    refund = await _undecided(db, trx_id, note)
    _check_left(refund)
    event = TransferResult(TransferEvent.DELIVERED, Source.ADMINISTRATOR, guidance=note)
    async with _held_job(db, refund) as job:
        if not already_paid:
            await _check_not_at_provider(db, rails, trx_id, LOOK_UP_AND_PAY)
        return await _end(db, refund, event, holder=job)


async def reject(
    db: Database, rails: Rails, trx_id: str, reason: str, *, is_checked: bool = False
) -> Refund:
    """Rejects a refund that was not paid, and credits its amount back to the wallet.

    `is_checked`: the administrator has verified with the provider that it does not pay the refund.
    This is sufficient only if the provider has no status query for refunds, or if its query cannot
    find the refund.
    """
    refund = await _undecided(db, trx_id, reason)
    if refund.is_of_customer_credit and refund.charge_reference is None:
        raise RefundRefused("The sandbox pays this refund automatically.")
    event = TransferResult(TransferEvent.REJECTED, Source.ADMINISTRATOR, guidance=reason)
    if await hold_of(db, refund) in REJECTED_WHILE:
        return await _end(db, refund, event, only_unsent=True)
    _check_left(refund)
    async with _held_job(db, refund) as job:
        how = None if is_checked else LOOK_UP_AND_REJECT
        await _check_not_at_provider(db, rails, trx_id, how)
        return await _end(db, refund, event, holder=job)


def check_note(text: str) -> None:
    if not is_line(text, REASON_LENGTH_MAX):
        raise RefundRefused(f"A note must have 1 to {REASON_LENGTH_MAX} printable characters.")


async def _undecided(db: Database, trx_id: str, note: str) -> Refund:
    check_note(note)
    refund = await find(db, trx_id)
    if not refund.is_open:
        raise RefundRefused(f"The refund is {refund.status} already.")
    return refund


def _check_left(refund: Refund) -> None:
    if not refund.by_operator:
        raise RefundRefused(f"The refund is {refund.status}. The provider decides its outcome.")


@asynccontextmanager
async def _held_job(db: Database, refund: Refund) -> AsyncIterator[Job]:
    """Claims the refund's job, so that no worker sends or settles the refund."""
    async with hold_job(db, refund.merchant_id, SEND, refund.trx_id) as job:
        if job is None:
            raise RefundRefused("A worker is processing the refund: try again in a minute.")
        yield job


async def _check_not_at_provider(
    db: Database, rails: Rails, trx_id: str, how_to_look_up: str | None
) -> None:
    """Raises an error unless the provider reports that the refund failed or does not exist.

    `how_to_look_up`: the advice if only a person can find the refund, or None if one has checked.
    """
    refund = await find(db, trx_id)
    if refund.sent_at is None:
        return  # the refund was never sent: only the job's holder can send it, and we hold the job
    match await rails.state(
        WebhookSubject.REFUND, refund.payer, refund.trx_id, await store.known_as(db, refund)
    ):
        case Done(state):
            _check_not_paid(refund, state)
        case Refused(RefusalCode.NOT_SUPPORTED):
            if how_to_look_up is not None:
                raise RefundRefused(
                    f"The provider has no status query for refunds. {how_to_look_up}"
                )
        case Unknown(reason, needs_lookup=True):
            if how_to_look_up is not None:
                raise RefundRefused(f"{refund.payer} reports: {reason}. {how_to_look_up}")
        case Refused(_, reason) | Unknown(reason):
            raise RefundRefused(f"{refund.payer} gave no usable answer: {reason.rstrip('.')}.")
    if await store.was_sent_within(db, refund, QUIET):
        raise RefundRefused(
            f"The refund was sent within the last {QUIET.seconds // 60} minutes and may still "
            "arrive: try again later."
        )


def _check_not_paid(refund: Refund, state: RefundState) -> None:
    is_same = state.amount in (None, refund.amount)
    if state.status not in NOT_PAID or not is_same:
        amount = "" if is_same else f" with {state.amount}"
        raise RefundRefused(
            f"{refund.payer} says that the refund is {state.status}{amount}. Nothing was changed. "
            "Do not pay the customer: the provider may pay too."
        )


async def _end(
    db: Database,
    refund: Refund,
    event: TransferResult,
    *,
    holder: Job | None = None,
    only_unsent: bool = False,
) -> Refund:
    is_decided = await states.apply_result(
        db, refund, event, holder=holder, only_unsent=only_unsent
    )
    current = await find(db, refund.trx_id)
    if is_decided:
        return current
    if not current.is_open:
        raise RefundRefused(f"The refund is {current.status} already.")
    if only_unsent:
        raise RefundRefused("The refund is sent already.")
    raise RefundRefused("A signed webhook says that the provider has the refund.")


async def decision(db: Database, refund: Refund) -> str | None:
    """Returns a sentence about the administrator's decision, or None if there is no decision."""
    about = AuditFilter(
        action="refund", merchant_id=refund.merchant_id, subject=f"refund:{refund.trx_id}"
    )
    words = {"refund.confirm": "paid the refund", "refund.reject": "rejected the refund"}
    for line in await audit.list_entries(db, about):
        if line.action in words:
            return f"{line.actor_name} {words[line.action]}: {line.detail.get('reason')}"
    return None


async def hold_of(db: Database, refund: Refund) -> OutgoingHold | None:
    """Returns why an unsent refund is on hold, or None if it is not on hold or was sent."""
    is_open = refund.is_open and not refund.by_operator
    if not is_open or refund.sent_at is not None:
        return None
    return await outgoing.hold(
        db, refund.merchant_id, refund.environment, on_behalf=refund.on_behalf
    )
