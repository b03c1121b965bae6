"""The form for a refund of a payment, and its review."""

from typing import Any

import msgspec

from manilla.kit.money import Money
from manilla.payments.payment import Payment
from manilla.refunds import initiate
from manilla.refunds.refund import REASON_LENGTH_MAX
from manilla.web.page_request import PageRequest


class RefundForm(msgspec.Struct, frozen=True):
    amount: Money
    reason: str
    refunded_before: int

    @property
    def amount_text(self) -> str:
        return f"{self.amount.amount:f}"


def read(request: PageRequest, payment: Payment) -> RefundForm:
    """Returns the validated form. An empty amount is the remaining amount."""
    given = request.form.text("amount")
    amount = request.form.money("amount", payment.currency) if given else None
    reason = request.form.required("reason", at_most=REASON_LENGTH_MAX)
    refunded_before = request.form.integer("refunded_before")
    amount = initiate.refundable(payment, amount, refunded_before)
    return RefundForm(amount, reason, refunded_before)


def review(request: PageRequest, payment: Payment) -> dict[str, Any]:
    """Returns the values of the review page, and the fields that its form submits again."""
    wanted = read(request, payment)
    kept = [pair for pair in request.form.pairs() if pair[0] not in ("csrf", "amount")]
    return {
        "wanted": wanted,
        "left": payment.refundable - wanted.amount,
        "kept": [*kept, ("amount", wanted.amount_text)],
    }
