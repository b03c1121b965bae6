"""Monnify's refunds. Our own reference identifies a refund."""

from typing import Any

from manilla_simulator import charges
from manilla_simulator import refunds as core
from manilla_simulator.dialects.monnify.common import (
    CARD_NOT_REFUNDABLE,
    DENIALS,
    TEXT_TOO_LONG,
    account_of,
    by_own_reference,
    clock_time,
    own_reference,
    page_of,
)
from manilla_simulator.provider import Provider
from manilla_simulator.state import Refund, RefundStatus
from manilla_simulator.wire import Answer, Ask, Notice, Refused

REASON_LENGTH_MAX, NOTE_LENGTH_MAX = 64, 16
STATUS_WORDS = {
    "PENDING": RefundStatus.PROCESSING,
    "PROCESSING": RefundStatus.PROCESSING,
    "COMPLETED": RefundStatus.SUCCESS,
    "FAILED": RefundStatus.FAILED,
}
DEFAULT_WORD = {
    RefundStatus.PROCESSING: "PENDING",
    RefundStatus.SUCCESS: "COMPLETED",
    RefundStatus.FAILED: "FAILED",
}
COMMENTS = {
    RefundStatus.PROCESSING: "Transaction refund is in progress.",
    RefundStatus.SUCCESS: "Transaction refunded successfully.",
    RefundStatus.FAILED: "Transaction refund failed.",
}


def initiate(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only(
        *("transactionReference", "refundAmount", "refundReference", "refundReason"),
        *("customerNote", "destinationAccountNumber", "destinationAccountBankCode"),
        "currencyCode",
    )
    reference = fields.reference("refundReference")
    amount = fields.amount_of_any_type("refundAmount")
    if "currencyCode" in fields:
        fields.currency("currencyCode")
    reason, note = fields.text("refundReason"), fields.text("customerNote")
    if len(reason) > REASON_LENGTH_MAX or len(note) > NOTE_LENGTH_MAX:
        raise Refused(TEXT_TOO_LONG)
    core.refuse_duplicate(provider, reference)
    charge = by_own_reference(provider, fields.text("transactionReference"))
    if charge is None:
        assert DENIALS.charge_not_found is not None
        raise Refused(DENIALS.charge_not_found)
    if account_of(provider).rejects_card_refunds and not charge.accounts:
        raise Refused(CARD_NOT_REFUNDABLE)
    refund = core.accept(provider, reference, charges.refreshed(charge), amount)
    refund.note = reason
    core.settle_later(provider, refund)
    return Answer(_refund(provider, refund), "success")


def query(provider: Provider, ask: Ask) -> Answer:
    refund = core.find(provider, ask.parameters["refundReference"])
    return Answer(_refund(provider, refund), "success")


def list_refunds(provider: Provider, ask: Ask) -> Answer:
    page = page_of(ask, list(provider.refunds.select()), "page", "size")
    content = [_refund(provider, refund) for refund in page["content"]]
    return Answer({**page, "content": content}, "success")


def _refund(provider: Provider, refund: Refund) -> dict[str, Any]:
    full = refund.amount == refund.charge.amount_paid
    return {
        "refundReference": refund.reference,
        "transactionReference": own_reference(refund.charge),
        "refundReason": refund.note,
        "customerNote": refund.note,
        "refundAmount": refund.amount.amount,
        "refundType": "FULL_REFUND" if full else "PARTIAL_REFUND",
        "refundStatus": _word(provider, refund),
        "refundStrategy": "MERCHANT_WALLET",
        "comment": COMMENTS[refund.status],
        "completedOn": clock_time(refund.settled_at),
        "createdOn": clock_time(refund.created_at),
    }


def _word(provider: Provider, refund: Refund) -> str:
    early = account_of(provider).refunds_say_completed_early
    if early and refund.status is RefundStatus.PROCESSING:
        return "COMPLETED"
    return refund.provider_status or DEFAULT_WORD[refund.status]


def refund_notice(_provider: Provider, refund: Refund) -> Notice | None:
    if refund.status is RefundStatus.PROCESSING:
        return None
    done = refund.status is RefundStatus.SUCCESS
    event = "SUCCESSFUL_REFUND" if done else "FAILED_REFUND"
    data = {
        "merchantReason": refund.note,
        "transactionReference": own_reference(refund.charge),
        "completedOn": clock_time(refund.settled_at),
        "refundStatus": DEFAULT_WORD[refund.status],
        "customerNote": refund.note,
        "createdOn": clock_time(refund.created_at),
        "refundReference": refund.reference,
        "refundAmount": refund.amount.amount,
    }
    return Notice(event, refund.reference, {"eventType": event, "eventData": data})
