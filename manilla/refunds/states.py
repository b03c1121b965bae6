"""The states of a refund, and the only function that changes them.

The function runs in one transaction that locks the payment's row. Status, money, timeline and
notification are written together or not at all, and a concurrent caller sees the committed result.
"""

from collections.abc import Mapping

import msgspec

from manilla.audit import audit
from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs, tracing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.jobs import Job
from manilla.ledger import outcomes
from manilla.ledger.outcomes import ChangedRow, EndedJob, TimelineStep, TransactionOutcome
from manilla.payments import notices, wrong_amounts
from manilla.payments import store as payments
from manilla.payments.payment import Payment
from manilla.providers import claims
from manilla.providers.claims import Claimed
from manilla.providers.port import ReportedRefundStatus, WebhookSubject
from manilla.refunds import postings, store
from manilla.refunds.refund import SEND, Refund, RefundStatus
from manilla.splits import movements
from manilla.transfers import doubts, reports
from manilla.transfers.events import Source, TransferEvent, TransferResult

# Unlisted transitions move no money. If an event contradicts the current status, a case is opened.
NEXT: dict[tuple[RefundStatus, TransferEvent], RefundStatus] = {
    (RefundStatus.PENDING, TransferEvent.DELIVERED): RefundStatus.COMPLETED,
    (RefundStatus.PENDING, TransferEvent.FAILED): RefundStatus.FAILED,
    (RefundStatus.PENDING, TransferEvent.REJECTED): RefundStatus.FAILED,
}
# The status in a signed webhook that contradicts each final status of a refund.
CONTRADICTED_BY = {
    RefundStatus.COMPLETED: ReportedRefundStatus.FAILED,
    RefundStatus.FAILED: ReportedRefundStatus.PAID,
}
# The payment covers more of its disputes after one of its refunds has failed.
_CHECK_DISPUTES = jobs.put_from(
    f"""SELECT merchant_id, '{JobKind.DISPUTE}', trx_id, now() FROM dispute
         WHERE merchant_id = $1 AND payment_trx_id = $2 ORDER BY trx_id"""
)


@tracing.as_step("settle")
async def apply_result(
    db: Database,
    refund: Refund,
    event: TransferResult,
    *,
    holder: Job | None = None,
    only_unsent: bool = False,
) -> bool:
    """Applies the event to the refund. Returns True if its status has changed.

    If `holder` is given, the event is ignored unless that worker still holds the refund's job. A
    worker that stalled may receive a rejection that only means that another worker has sent the
    refund in the meantime.

    `only_unsent`: changes the refund only if it was not sent, and ensures that it is never sent.
    """
    async with db.transaction() as connection:
        payment, current = await _locked(connection, refund)
        status = NEXT.get((current.status, event.event))
        if status is None:
            await _report_contradiction(connection, current, event)
            await report_contradicting_webhook(connection, current)
            return False
        if holder is not None and not await jobs.is_held(connection, holder):
            return False
        if only_unsent and not await store.lock_unsent(connection, current):
            return False
        if doubts.find(event, await _claims(connection, current, event)):
            return False
        await _change(connection, payment, current, status, event)
        # `_change` has deleted the job, so a webhook that arrives from now on adds a new job, which
        # queries the provider. This check finds the webhooks that have arrived before.
        after = msgspec.structs.replace(current, status=status)
        await report_contradicting_webhook(connection, after)
        crash.point("before_refund_commit")
    return True


async def _claims(connection: Connection, refund: Refund, event: TransferResult) -> list[Claimed]:
    """Returns what signed webhooks claim about the refund.

    After a rejection, this includes webhooks about any refund of the same charge since this refund
    was sent, because some providers do not identify the refund.
    """
    said = await reports.claims_about(connection, WebhookSubject.REFUND, refund)
    sent_at = refund.first_sent_at
    is_named = event.source is not Source.PROVIDER or refund.charge_reference is None
    if refund.provider is None or sent_at is None or is_named:
        return said
    assert refund.charge_reference is not None
    of_charge = await claims.claims_of(
        *(connection, WebhookSubject.CHARGE_REFUNDS, refund.merchant_id),
        *(refund.charge_reference, refund.provider),
    )
    return said + [claim for claim in of_charge if claim.received_at >= sent_at]


async def _locked(connection: Connection, refund: Refund) -> tuple[Payment, Refund]:
    """Locks the payment's row before it reads the refund. All code uses this lock order."""
    payment = await payments.payment(
        connection, refund.merchant_id, refund.payment_trx_id, lock=True
    )
    current = await store.refund(connection, refund.merchant_id, refund.trx_id)
    assert payment is not None
    assert current is not None
    return payment, current


async def _change(
    connection: Connection,
    payment: Payment,
    refund: Refund,
    status: RefundStatus,
    event: TransferResult,
) -> None:
    is_paid = status is RefundStatus.COMPLETED
    by_administrator = event.source is Source.ADMINISTRATOR
    detail = _detail(event)
    returned_minor = 0 if is_paid else refund.from_wallet_minor
    if is_paid:
        moved = [
            postings.payment_of(refund, from_bank=by_administrator),
            *postings.commission_of(payment, refund),
        ]
    else:
        moved = [await postings.find_return(connection, refund)]
    if refund.is_of_customer_credit and not is_paid:
        assert refund.charge_reference is not None
        await wrong_amounts.hold_unreturned(
            connection, payment, refund.charge_reference, refund.amount, detail
        )
    notice = await notices.refund_notice(
        *(connection, payment, refund.trx_id, refund.ref_trx),
        *(refund.amount, status, refund.source),
    )
    outcome = outcome_of(payment, refund, status, detail, -returned_minor, notice)
    # If an administrator paid a refund that was also sent, keep the job that queries the provider.
    is_watched = is_paid and by_administrator and refund.sent_at
    job = EndedJob(SEND, refund.trx_id, only_unchanged=True)
    row = ChangedRow("refund", refund.trx_id, {"status": status, "detail": detail})
    outcome = msgspec.structs.replace(
        outcome,
        rows=[row] if is_paid else [*outcome.rows, row],
        postings=moved,
        ended_jobs=[] if is_watched else [job],
    )
    if not is_paid:
        await connection.execute(_CHECK_DISPUTES, payment.merchant_id, payment.trx_id)
    async with movements.following(connection, with_refund(payment, -returned_minor)):
        is_written = await outcomes.apply(connection, outcome)
        assert is_written, "a returned refund may exceed the wallet's maximum balance"
    if by_administrator:
        await record(connection, "refund.confirm" if is_paid else "refund.reject", refund, detail)


def with_refund(payment: Payment, minor: int) -> Payment:
    """Returns the payment after a refund of this amount, or after the end of one (negative)."""
    return msgspec.structs.replace(payment, refunded_minor=payment.refunded_minor + minor)


def outcome_of(
    payment: Payment,
    refund: Refund,
    what: str,
    detail: str,
    refunded_minor: int,
    notice: Mapping[str, str],
) -> TransactionOutcome:
    """Returns what changes the payment: the refund was started, completed or failed."""
    event = f"return_{what}" if refund.is_of_customer_credit else f"refund_{what}"
    facts = {"refund": refund.trx_id, "amount": str(refund.amount), "reason": refund.reason}
    after = with_refund(payment, refunded_minor)
    return TransactionOutcome(
        merchant_id=payment.merchant_id,
        trx_id=payment.trx_id,
        environment=payment.environment,
        currency=refund.currency,
        rows=[payments.changed_payment(after)],
        step=TimelineStep(
            *(event, payment.status, payment.status),
            *(f"{refund.trx_id}, {refund.amount}: {detail}", facts),
        ),
        notice=notice,
    )


def _detail(event: TransferResult) -> str:
    if event.guidance or event.source is Source.SANDBOX:
        return event.guidance or event.source
    is_paid = event.event is TransferEvent.DELIVERED
    return "paid by the provider" if is_paid else "rejected by the provider"


async def _report_contradiction(
    connection: Connection, refund: Refund, event: TransferResult
) -> None:
    """Opens a case for a contradiction, unless an administrator caused it and gets an error."""
    if event.source is Source.ADMINISTRATOR:
        return
    said = NEXT.get((RefundStatus.PENDING, event.event))
    detail = f"The refund is {refund.status}; the provider now says {said}. Nothing was moved."
    is_contradicted = refund.status is not said
    if refund.status is RefundStatus.COMPLETED and await postings.is_from_bank(connection, refund):
        detail = "The refund was paid from our bank, and now the provider reports that it paid too."
        is_contradicted = said is RefundStatus.COMPLETED
    if is_contradicted:
        await reports.report(connection, refund, CaseKind.CONTRADICTION, detail)


async def report_contradicting_webhook(db: Database | Connection, refund: Refund) -> None:
    """Opens a case if a signed webhook contradicts the refund's final status. Moves no money."""
    opposite = CONTRADICTED_BY.get(refund.status)
    detail = f"The refund is {refund.status}; a signed webhook says {opposite}. Nothing was moved."
    if refund.status is RefundStatus.COMPLETED and await postings.is_from_bank(db, refund):
        opposite = ReportedRefundStatus.PAID
        detail = "The refund was paid from our bank, and a signed webhook says paid."
    said = await reports.claims_about(db, WebhookSubject.REFUND, refund)
    if opposite is not None and any(claim.status == opposite for claim in said):
        await reports.report(db, refund, CaseKind.CONTRADICTION, detail)


async def record(connection: Connection, action: str, refund: Refund, reason: str) -> None:
    await audit.record(
        connection,
        action,
        f"refund:{refund.trx_id}",
        merchant_id=refund.merchant_id,
        payment=refund.payment_trx_id,
        amount=refund.amount,
        reason=reason,
    )
