"""Decides a sandbox payment's result: by the caller's scenario, otherwise by its amount."""

from manilla.ledger.transactions import Scenario
from manilla.payments.payment import NewPayment, PaymentErrorCode

# With two decimals, 666.61 and 666.62 fail, and 666.63 stays pending. Other amounts succeed.
FAILURES = {
    66_661: PaymentErrorCode.PAYMENT_DECLINED,
    66_662: PaymentErrorCode.INSUFFICIENT_FUNDS,
}
STAYS_PENDING = 66_663


def failure(payment: NewPayment) -> PaymentErrorCode | None:
    """Returns why the payment fails, or None if it succeeds."""
    if payment.scenario is None:
        return FAILURES.get(payment.amount_minor)
    return PaymentErrorCode.PAYMENT_DECLINED if payment.scenario is Scenario.FAILED else None


def stays_pending(payment: NewPayment) -> bool:
    if payment.scenario is None:
        return payment.amount_minor == STAYS_PENDING
    return payment.scenario is Scenario.PENDING
