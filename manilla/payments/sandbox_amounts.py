"""The amounts of sandbox payments: which results they set, and which wrong amounts can be paid.

The caller's scenario decides a payment's result. Without a scenario, its amount does.
"""

from manilla.kit.money import Money
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


def too_little(requested: Money) -> Money:
    """Returns what a test customer sends who pays too little: half of the requested amount."""
    return Money(requested.currency, requested.minor // 2)


def too_much(requested: Money) -> Money:
    """Returns what a test customer sends who pays too much: half of the amount on top of it."""
    return Money(requested.currency, requested.minor + max(1, requested.minor // 2))
