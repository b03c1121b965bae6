"""Kora's refunds. Kora refunds only settled charges, and at least 100 naira."""

from typing import Any

from manilla.kit import clock
from manilla.kit.money import Money
from manilla_simulator import refunds as core
from manilla_simulator.dialects.kora.common import (
    DENIALS,
    UNSETTLED,
    account_of,
    find_charge,
    is_test,
    listing,
    plain_time,
)
from manilla_simulator.dialects.kora.payments import method_of
from manilla_simulator.provider import Provider
from manilla_simulator.state import CURRENCY, Charge, ChargeStatus, Refund, RefundStatus
from manilla_simulator.wire import Answer, Ask, Denial, Fields, Notice, Refused, invalid

MINIMUM = Money(CURRENCY, 100_00)


def initiate(provider: Provider, ask: Ask) -> Answer:
    test_only = ("completion_status", "status_reason") if is_test(provider) else ()
    fields = ask.fields.only(
        "reference", "payment_reference", "amount", "reason", "webhook_url", *test_only
    )
    reference = fields.reference(most=50)
    if provider.refunds.get(reference) is not None:
        raise Refused(Denial(409, f"Refund already exists with reference {reference}"))
    charge = find_charge(provider, fields.text("payment_reference"))
    if charge is None:
        raise Refused(DENIALS.not_found)
    reason = fields.optional_text("reason", most=50)
    url = fields.address("webhook_url")
    wanted, status_reason = _outcome(fields), fields.optional_text("status_reason", most=200)
    amount = _amount(provider, fields, charge)
    refund = core.accept(provider, reference, charge, amount)
    refund.note, refund.notification_url = reason, url
    if wanted is None:
        core.settle_later(provider, refund)
    else:
        core.settle(provider, refund, wanted, status_reason)
    data = {
        "refund_reference": refund.reference,
        "refund_date": clock.iso(refund.created_at),
        "status": "processing",
        "payment_reference": charge.reference,
        "reason": reason,
        "amount_returned": amount.amount,
        "currency": CURRENCY,
    }
    return Answer(data, "Refund successfully initiated")


def _amount(provider: Provider, fields: Fields, charge: Charge) -> Money:
    if charge.status is ChargeStatus.SUCCESS and not account_of(provider).charges_are_settled:
        raise Refused(UNSETTLED)
    left = charge.amount_paid - charge.refunded
    amount = fields.amount() if "amount" in fields else left
    if amount > charge.amount_paid and charge.status is ChargeStatus.SUCCESS:
        limit = charge.amount_paid.amount
        raise Refused(Denial(400, f"Refund amount cannot be more than {CURRENCY} {limit}"))
    if MINIMUM > amount > Money(CURRENCY, 0):
        raise Refused(Denial(400, f"Refund amount cannot be less than {CURRENCY} 100"))
    if amount > left > Money(CURRENCY, 0):
        text = "The maximum refundable amount for this transaction is"
        raise Refused(Denial(400, f"{text} {CURRENCY} {left.amount}"))
    return amount


def _outcome(fields: Fields) -> RefundStatus | None:
    """Returns the refund's outcome. In the sandbox, the request can choose the outcome."""
    wanted = fields.optional_text("completion_status")
    if wanted not in ("", "success", "failed"):
        raise invalid("completion_status must be success or failed", "completion_status")
    return RefundStatus(wanted) if wanted else None


def query(provider: Provider, ask: Ask) -> Answer:
    refund = core.find(provider, ask.parameters["reference"])
    data = {
        **_refund(refund),
        "destination": "customer",
        "payment_method": method_of(refund.charge),
    }
    return Answer(data, "Refund details retrieved successfully")


def _refund(refund: Refund) -> dict[str, Any]:
    return {
        "amount": str(refund.amount.amount),
        "status": refund.status,
        "currency": CURRENCY,
        "reference": refund.reference,
        "reason": refund.note,
        "payment_reference": refund.charge.reference,
        "transaction_amount": str(refund.charge.amount_paid.amount),
        "created_at": plain_time(refund.created_at),
        "completed_at": plain_time(refund.settled_at),
    }


def list_refunds(provider: Provider, ask: Ask) -> Answer:
    page = listing(
        ask,
        list(provider.refunds.select()),
        lambda refund: refund.number,
        lambda refund: refund.created_at,
        _refund,
        "Refunds retrieved successfully",
    )
    return Answer({**page.more, "refunds": page.data}, page.message)


def refund_notice(_provider: Provider, refund: Refund) -> Notice:
    data = {
        "amount": refund.amount.amount,
        "status": refund.status,
        "status_reason": refund.reason or None,
        "currency": CURRENCY,
        "reference": refund.reference,
        "payment_reference": refund.charge.reference,
        "refund_date": plain_time(refund.created_at),
        "completion_date": plain_time(refund.settled_at),
    }
    event = f"refund.{refund.status}"
    body = {"event": event, "data": data}
    return Notice(event, refund.reference, body, refund.notification_url)
