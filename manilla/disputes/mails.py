"""Emails about disputes, to the merchant and to the operator."""

from datetime import UTC, datetime

from manilla.disputes.dispute import AnswerState, Dispute, DisputeEvent, DisputeStatus
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Connection
from manilla.kit.display import money
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.merchants import queries

WORDS = {
    DisputeEvent.OPENED: "it needs your answer",
    DisputeEvent.REOPENED: "it was reopened, and needs your answer again",
    DisputeEvent.WON: "you won, and the money is in your wallet",
    DisputeEvent.LOST: "it is lost, and the customer keeps the money",
    DisputeEvent.ACCEPTED: "it was accepted, and the customer keeps the money",
    DisputeEvent.DEADLINE_MISSED: "the deadline has passed without an answer",
}
_NEED_AN_ANSWER = (DisputeEvent.OPENED, DisputeEvent.REOPENED)
# The operator acts if an answer waits for it, or if the merchant does not answer in time.
_BY_OPERATOR = (AnswerState.REVIEW, AnswerState.MANUAL)


async def put(
    connection: Connection, dispute: Dispute, event: DisputeEvent, detail: str = ""
) -> None:
    """Queues the emails about an event of a dispute."""
    if dispute.is_sandbox:
        return
    is_rejected = event is DisputeEvent.REOPENED and dispute.is_rejected
    what = f"the provider has rejected the evidence: {detail}" if is_rejected else ""
    if event is DisputeEvent.OPENED and dispute.is_acceptance:
        what = "it was accepted, because you accept disputes below a limit"
    is_late = event in _NEED_AN_ANSWER and dispute.respond_by <= datetime.now(UTC)
    if not is_late and (what or event in WORDS):
        await _put_to_merchant(connection, dispute, what or WORDS[event])
    if event is DisputeEvent.DEADLINE_MISSED:
        await _put_to_operator(connection, dispute, "the deadline has passed without an answer")
    elif event is DisputeEvent.SUBMITTED and dispute.answer in _BY_OPERATOR:
        is_review = dispute.answer is AnswerState.REVIEW
        what = "review the answer" if is_review else "send the answer at the provider manually"
        await _put_to_operator(connection, dispute, what)


async def put_manual(connection: Connection, dispute: Dispute) -> None:
    """Tells the operator that an answer must be sent at the provider."""
    if not dispute.is_sandbox:
        await _put_to_operator(connection, dispute, "send the answer at the provider manually")


async def put_reminder(connection: Connection, dispute: Dispute, hours: int) -> None:
    """Reminds whoever has not acted: the merchant, and near the end the operator too."""
    if dispute.is_sandbox:
        return
    what = f"less than {hours} hours are left to answer"
    if dispute.status is DisputeStatus.NEEDS_RESPONSE:
        await _put_to_merchant(connection, dispute, what)
    if dispute.answer in _BY_OPERATOR or dispute.reminders > 0:
        await _put_to_operator(connection, dispute, what)


async def _put_to_merchant(connection: Connection, dispute: Dispute, what: str) -> None:
    facts = {
        "what": what,
        "amount": money(dispute.amount),
        "reference": dispute.ref_trx,
        "payment": dispute.payment_trx_id,
        "reason": dispute.reason,
        "respond_by": _deadline(dispute),
        "trx_id": dispute.trx_id,
    }
    path = f"/dashboard/{dispute.environment}/disputes/{dispute.trx_id}"
    merchant_id = dispute.merchant_id
    await outbox.put(connection, MailKind.DISPUTE, facts, path=path, merchant_id=merchant_id)


async def _put_to_operator(connection: Connection, dispute: Dispute, what: str) -> None:
    merchant = await queries.merchant(connection, dispute.merchant_id)
    assert merchant is not None
    facts = {
        "what": what,
        "amount": money(dispute.amount),
        "provider": dispute.provider,
        "reference": dispute.provider_reference,
        "respond_by": _deadline(dispute),
        "trx_id": dispute.trx_id,
        "merchant": merchant.name,
    }
    path = f"/console/disputes/{dispute.trx_id}"
    await outbox.put(connection, MailKind.DISPUTE_OPERATOR, facts, path=path)


def _deadline(dispute: Dispute) -> str:
    if not dispute.is_unanswered:
        return ""
    return f"{dispute.respond_by.astimezone(LAGOS):%d %b %Y %H:%M} (Africa/Lagos)"
