"""Paystack's refunds. A refund has no merchant reference, and its webhook names only the charge."""

from typing import Any

from manilla_simulator import refunds as core
from manilla_simulator.dialects.formats import iso_milliseconds, optional_iso
from manilla_simulator.dialects.paystack.common import (
    INTEGRATION,
    INVALID_AMOUNT,
    customer,
    domain,
    kobo,
    page_of,
)
from manilla_simulator.dialects.paystack.statement import is_within
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Charge, Refund, RefundStatus
from manilla_simulator.wire import Answer, Ask, Denial, Notice, Refused

STATUS_WORDS = {
    "pending": RefundStatus.PROCESSING,
    "processing": RefundStatus.PROCESSING,
    "needs-attention": RefundStatus.PROCESSING,
    "processed": RefundStatus.SUCCESS,
    "failed": RefundStatus.FAILED,
}
DEFAULT_WORD = {
    RefundStatus.PROCESSING: "pending",
    RefundStatus.SUCCESS: "processed",
    RefundStatus.FAILED: "failed",
}
UNKNOWN_TRANSACTION = Denial(404, "Transaction not found", "transaction_not_found")


def create(provider: Provider, ask: Ask) -> Answer:
    fields = ask.fields.only("transaction", "amount", "currency", "customer_note", "merchant_note")
    charge = _find_charge(provider, fields.text("transaction"))
    if "currency" in fields:
        fields.currency()
    note = fields.optional_text("merchant_note")
    left = charge.amount_paid - charge.refunded
    amount = kobo(fields, INVALID_AMOUNT) if "amount" in fields else left
    number = next(provider.numbers)
    refund = core.accept(provider, str(number), charge, amount, number=number)
    refund.note = note or f"Refund for transaction {charge.reference}"
    provider.outbox.put_if_any(refund_notice(provider, refund))
    core.settle_later(provider, refund)
    transaction = {
        "id": charge.number,
        "domain": domain(provider),
        "reference": charge.reference,
        "amount": charge.amount_paid.minor,
        "paid_at": optional_iso(charge.paid_at),
        "channel": "bank_transfer" if charge.accounts else "card",
        "currency": CURRENCY,
        "authorization": {},
        "customer": {},
    }
    data = {**_refund(provider, refund), "transaction": transaction}
    return Answer(data, "Refund has been queued for processing")


def _find_charge(provider: Provider, named: str) -> Charge:
    """Finds a charge by its reference, or by Paystack's id as a string."""
    by_number = provider.charges.by_number.get(int(named) if named.isdecimal() else 0)
    charge = provider.charges.get(named) or by_number
    if charge is None:
        raise Refused(UNKNOWN_TRANSACTION)
    return charge


def fetch(provider: Provider, ask: Ask) -> Answer:
    refund = core.find(provider, ask.parameters["id"])
    return Answer(_refund(provider, refund), "Refund retrieved")


def list_refunds(provider: Provider, ask: Ask) -> Answer:
    named = ask.query.get("transaction", "")
    matching = [
        refund
        for refund in provider.refunds.select()
        if is_within(ask, refund.created_at)
        and named in ("", str(refund.charge.number), refund.charge.reference)
    ]
    page, meta = page_of(ask, matching)
    listed = [_refund(provider, refund) for refund in page]
    for each in listed:
        del each["transaction_reference"]  # not in Paystack's example of the list
    return Answer(listed, "Refunds retrieved", more={"meta": meta})


def _refund(provider: Provider, refund: Refund) -> dict[str, Any]:
    done = refund.status is RefundStatus.SUCCESS
    return {
        "id": refund.number,
        "integration": INTEGRATION,
        "domain": domain(provider),
        "transaction": refund.charge.number,
        "transaction_reference": refund.charge.reference,
        "transaction_amount": refund.charge.amount_paid.minor,
        "dispute": None,
        "settlement": None,
        "amount": refund.amount.minor,
        "deducted_amount": refund.amount.minor,
        "fully_deducted": True,
        "currency": CURRENCY,
        "channel": "migs",
        "merchant_note": refund.note,
        "customer_note": f"Refund for transaction {refund.charge.reference}",
        "status": refund.provider_status or DEFAULT_WORD[refund.status],
        "refunded_by": "simulator@example.com",
        "refunded_at": optional_iso(refund.settled_at) if done else None,
        "expected_at": iso_milliseconds(refund.created_at),
        "bank_reference": refund.trace_id if done else None,
        "session_id": refund.trace_id if done else None,
        "reason": "",
        "refund_type": "full" if refund.amount == refund.charge.amount_paid else "partial",
        "initiated_by": "simulator@example.com",
        "refund_channel": "card",
        "collect_account_number": False,
        "createdAt": iso_milliseconds(refund.created_at),
        "updatedAt": iso_milliseconds(refund.settled_at or refund.created_at),
    }


def refund_notice(provider: Provider, refund: Refund) -> Notice:
    """Returns the webhook about a refund. The event determines the type of `amount`."""
    word = refund.provider_status or DEFAULT_WORD[refund.status]
    is_number = word in ("failed", "needs-attention")
    data = {
        "status": word,
        "transaction_reference": refund.charge.reference,
        "refund_reference": refund.trace_id if word == "processed" else None,
        "amount": refund.amount.minor if is_number else str(refund.amount.minor),
        "currency": CURRENCY,
        "processor": "instant-transfer",
        "customer": {
            name: customer(refund.charge)[name] for name in ("first_name", "last_name", "email")
        },
        "integration": INTEGRATION,
        "domain": domain(provider),
    }
    if word == "needs-attention":
        data["id"] = refund.number
    event = f"refund.{word}"
    return Notice(event, refund.reference, {"event": event, "data": data})
