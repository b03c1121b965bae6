"""The states of a payout, and the only functions that change them.

Each function runs in one transaction that locks the payout's row. Status, money, timeline and
notification are written together or not at all, and a concurrent caller sees the committed result.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from manilla import metrics
from manilla.cases.cases import CaseKind
from manilla.kit import crash, jobs, tracing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.jobs import Job
from manilla.ledger import outcomes, timeline
from manilla.ledger.outcomes import EndedJob, TimelineStep, TransactionOutcome
from manilla.ledger.posting import Posting
from manilla.payouts import attempts, notices, postings, store
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND
from manilla.payouts.payout import REPORTED_COLUMNS, Payout, PayoutStatus
from manilla.providers.claims import Claimed
from manilla.providers.port import RefusalCode, TransferStatus, WebhookSubject
from manilla.transfers import doubts, reports
from manilla.transfers.events import Source, TransferEvent, TransferResult
from manilla.transfers.refusals import PayoutErrorCode

# Unlisted transitions move no money. If an event contradicts the current status, a case is opened.
NEXT: dict[tuple[PayoutStatus, TransferEvent], PayoutStatus] = {
    (PayoutStatus.PENDING, TransferEvent.DELIVERED): PayoutStatus.COMPLETED,
    (PayoutStatus.PENDING, TransferEvent.FAILED): PayoutStatus.FAILED,
    (PayoutStatus.PENDING, TransferEvent.REVERSED): PayoutStatus.FAILED,
    (PayoutStatus.PENDING, TransferEvent.REJECTED): PayoutStatus.CANCELED,
    (PayoutStatus.COMPLETED, TransferEvent.REVERSED): PayoutStatus.FAILED,
}
CODES = {
    RefusalCode.PROVIDER_INSUFFICIENT_BALANCE: PayoutErrorCode.PROVIDER_INSUFFICIENT_BALANCE,
    RefusalCode.INVALID_BENEFICIARY: PayoutErrorCode.INVALID_BENEFICIARY,
    RefusalCode.PAYOUT_FAILED: PayoutErrorCode.PAYOUT_FAILED,
}
# Events that only confirm the current status.
AGREES: frozenset[tuple[PayoutStatus, TransferEvent]] = frozenset(
    (
        (PayoutStatus.COMPLETED, TransferEvent.DELIVERED),
        (PayoutStatus.FAILED, TransferEvent.FAILED),
        (PayoutStatus.FAILED, TransferEvent.REVERSED),
        (PayoutStatus.CANCELED, TransferEvent.REJECTED),
        (PayoutStatus.CANCELED, TransferEvent.FAILED),
    )
)


# The transfer statuses that a provider can report for each payout status without contradicting it.
FITS = {
    PayoutStatus.PENDING: frozenset(TransferStatus),
    PayoutStatus.COMPLETED: frozenset((TransferStatus.DELIVERED,)),
    PayoutStatus.FAILED: frozenset(
        (
            TransferStatus.FAILED,
            TransferStatus.REVERSED,
            TransferStatus.RETURNED,
            TransferStatus.NOT_FOUND,
        )
    ),
    PayoutStatus.CANCELED: frozenset(
        (TransferStatus.FAILED, TransferStatus.RETURNED, TransferStatus.NOT_FOUND)
    ),
}


def fits(payout: Payout, said: TransferStatus) -> bool:
    """Whether the provider's status is consistent with the payout's status.

    A reversed payout was delivered before it was returned, so DELIVERED is consistent with it.
    """
    was_delivered = payout.is_reversed and said is TransferStatus.DELIVERED
    return was_delivered or said in FITS.get(payout.status, frozenset())


@tracing.as_step("settle")
async def apply_result(
    db: Database,
    merchant_id: int,
    trx_id: str,
    event: TransferResult,
    *,
    holder: Job | None = None,
    provider: str | None = None,
) -> bool:
    """Applies the event to the payout. Returns True if its status has changed.

    If `holder` is given, the event is ignored unless that worker still holds the payout's job. A
    worker that stalled may receive a rejection that only means that another worker has sent the
    transfer in the meantime.

    If `provider` is given, the event is ignored unless the payout is still on that rail.

    A failure is not applied while a signed webhook makes it doubtful: see `doubts`.
    """
    async with db.transaction() as connection:
        key = merchant_id, trx_id
        if not await apply_result_within(connection, *key, event, holder=holder, provider=provider):
            return False
        crash.point("before_payout_commit")
    crash.point("after_payout_commit")
    return True


async def apply_result_within(
    connection: Connection,
    merchant_id: int,
    trx_id: str,
    event: TransferResult,
    *,
    holder: Job | None = None,
    provider: str | None = None,
) -> bool:
    """Applies the event to a payout, like `apply_result`, but within the caller's transaction."""
    payout = await store.payout(connection, merchant_id, trx_id, lock=True)
    assert payout is not None
    if provider not in (None, payout.provider):
        return False
    if holder is not None and not await jobs.is_held(connection, holder):
        return False
    event = await _judged(connection, payout, event)
    status = NEXT.get((payout.status, event.event))
    if payout.is_open and await _keep_open_if_doubtful(connection, payout, event):
        return False
    if status is not None:
        metrics.payouts_decided.labels(event.event).inc()
        payout = await _change(connection, payout, status, event)
        await _check_left_rails(connection, payout)
    elif (payout.status, event.event) in AGREES:
        await store.add_reported(connection, payout, event.state)
    elif event.source is not Source.ADMINISTRATOR:
        # If an administrator caused the event, they get an error directly, and no case is opened.
        await store.save_late_fee(connection, payout, event.provider_fee)
        await reports.report(
            connection, payout, CaseKind.CONTRADICTION, contradiction(payout, event.event)
        )
    await report_contradicting_webhooks(connection, payout)
    return status is not None


async def _keep_open_if_doubtful(
    connection: Connection, payout: Payout, event: TransferResult
) -> bool:
    """Keeps the payout open if a rail may have paid it although the event reports a failure.

    The payout stays on the rail that may have it, or is given to that rail.
    """
    said = await reports.claims_about(connection, WebhookSubject.TRANSFER, payout)
    if against := doubts.find(event, said):
        await _note_doubt(connection, payout, event, against)
        return True
    if event.event not in doubts.NOT_PAID or not payout.is_routed:
        return False
    key = payout.merchant_id, payout.trx_id
    left_rail = await doubts.left_rail_that_has_it(connection, *key)
    if left_rail is None or event.source is Source.ADMINISTRATOR:
        return False  # the previous rails were queried before the administrator's decision
    because = f"{payout.provider} {event.event} it: {detail_of(event).rstrip('.')}."
    await attempts.give_to(connection, *key, left_rail, because)
    return True


async def _note_doubt(
    connection: Connection, payout: Payout, event: TransferResult, against: Sequence[Claimed]
) -> None:
    if event.source is not Source.PROVIDER:
        return
    said = ", ".join(sorted({claim.status or "nothing about its status" for claim in against}))
    await timeline.add(
        *(connection, payout.merchant_id, payout.trx_id, "rejection_contradicted"),
        before=payout.status,
        after=payout.status,
        detail=f"{detail_of(event)}; a signed webhook says {said}, so the provider is queried",
    )


async def _judged(connection: Connection, payout: Payout, event: TransferResult) -> TransferResult:
    """Decides what RETURNED means: REVERSED if we know of a delivery, FAILED otherwise.

    Some providers use the same status for a transfer that was returned after delivery and for a
    transfer that was never delivered.
    """
    if event.event is not TransferEvent.RETURNED:
        return event
    was_delivered = payout.status is PayoutStatus.COMPLETED or payout.is_reversed
    if not was_delivered:
        said = await reports.claims_about(connection, WebhookSubject.TRANSFER, payout)
        was_delivered = any(claim.status == TransferStatus.DELIVERED for claim in said)
    judged = TransferEvent.REVERSED if was_delivered else TransferEvent.FAILED
    return msgspec.structs.replace(event, event=judged)


async def report_contradicting_webhooks(db: Database | Connection, payout: Payout) -> None:
    """Opens a case for each signed webhook that contradicts the payout's status. Moves no money."""

    def contradiction(status: str) -> str | None:
        if fits(payout, TransferStatus(status)):
            return None
        return f"The payout is {payout.status}; a signed webhook says {status}."

    await reports.report_webhooks(db, db, WebhookSubject.TRANSFER, payout, contradiction)


async def _change(
    connection: Connection, before: Payout, status: PayoutStatus, event: TransferResult
) -> Payout:
    after = after_event(before, status, event)
    is_done = status is PayoutStatus.COMPLETED
    moved = postings.delivery(after) if is_done else await postings.find_return(connection, before)
    crash.point("between_status_and_refund")
    is_written = await outcomes.apply(connection, outcome_of(before, after, event, moved))
    assert is_written, "a returned payout may exceed the wallet's maximum balance"
    if not is_done:
        await notices.report_failure(connection, after)
    return after


def after_event(before: Payout, status: PayoutStatus, event: TransferResult) -> Payout:
    """Returns the payout as it is after an event that ends it."""
    is_done = status is PayoutStatus.COMPLETED
    return msgspec.structs.replace(
        before,
        status=status,
        error_code=None if is_done else code_of(event) or PayoutErrorCode.GATEWAY_PAYOUT_FAILED,
        guidance=None if is_done else event.guidance,
        is_reversed=event.event is TransferEvent.REVERSED,
        provider_fee_minor=_fee_minor(before, event),
        bank_reference=event.bank_reference or before.bank_reference,
        **references_after(before, event),
    )


def outcome_of(
    before: Payout, after: Payout, event: TransferResult, moved: Sequence[Posting]
) -> TransactionOutcome:
    return TransactionOutcome(
        merchant_id=after.merchant_id,
        trx_id=after.trx_id,
        environment=after.environment,
        currency=after.currency,
        rows=[store.changed_row(after)],
        postings=moved,
        step=TimelineStep(event.event, before.status, after.status, detail_of(event)),
        notice=notices.notice(after),
        ended_jobs=[EndedJob(kind, after.trx_id) for kind in (SEND, COMPLETE_IN_SANDBOX)],
    )


def _fee_minor(before: Payout, event: TransferResult) -> int | None:
    return before.provider_fee_minor if event.provider_fee is None else event.provider_fee.minor


def references_after(before: Payout, event: TransferResult) -> dict[str, Any]:
    """Returns the references that the provider has reported, now or before."""
    if event.state is None:
        return {}
    return {name: getattr(event.state, name) or getattr(before, name) for name in REPORTED_COLUMNS}


def code_of(event: TransferResult) -> PayoutErrorCode | None:
    """Returns the error code for merchants that corresponds to the provider's code."""
    if event.error_code is None:
        return None
    return CODES.get(event.error_code, PayoutErrorCode.GATEWAY_PAYOUT_FAILED)


def detail_of(event: TransferResult) -> str:
    """Returns the text of the event in the payout's timeline."""
    parts = [event.source_text, code_of(event), event.guidance, event.bank_reference]
    return ": ".join(part for part in parts if part)


async def _check_left_rails(connection: Connection, payout: Payout) -> None:
    """Adds a job if a previous rail reports the transfer, because it may have paid it too.

    The rail's webhook may have arrived after the worker had checked the previous rails.
    """
    key = payout.merchant_id, payout.trx_id
    if payout.is_routed and await doubts.left_rail_that_has_it(connection, *key):
        await jobs.put(connection, payout.merchant_id, SEND, payout.trx_id)


def contradiction(payout: Payout, said: str) -> str:
    """Returns the text of a case about a contradiction.

    The text must not depend on what caused the status query, because a resolved case is reopened
    only if the text is new.
    """
    return f"The payout is {payout.status}; the provider now says {said}. Nothing was moved."
