"""The transitions of payments and payouts, and the sandbox's test values, from the code."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from manilla.payments import states as payments
from manilla.payments.states import PaymentState
from manilla.payouts import states as payouts
from manilla.payouts.beneficiaries import sandbox
from manilla.payouts.payout import PayoutStatus
from manilla.transfers.events import TransferEvent


class Transition(msgspec.Struct, frozen=True):
    before: str
    text: str
    after: str


PAYMENT_TEXTS: Mapping[tuple[PaymentState, payments.PaymentEvent], str] = {
    (
        PaymentState.PENDING,
        payments.PaymentEvent.PAID,
    ): "the provider confirms the payment, with the correct amount",
    (
        PaymentState.PENDING,
        payments.PaymentEvent.DECLINED,
    ): "the payment is declined in the sandbox",
    (PaymentState.PENDING, payments.PaymentEvent.CANCELED): "the customer cancels on checkout",
    (PaymentState.PENDING, payments.PaymentEvent.EXPIRED): (
        "the link expires unpaid; the error code is that of the last decline, if any"
    ),
    (
        PaymentState.DECLINED,
        payments.PaymentEvent.PAID,
    ): "the provider later confirms that a charge was paid",
    (PaymentState.CANCELED, payments.PaymentEvent.PAID): "the customer paid despite canceling",
    (PaymentState.EXPIRED, payments.PaymentEvent.PAID): "a bank transfer arrives late",
}
PAYOUT_TEXTS: Mapping[tuple[PayoutStatus, TransferEvent], str] = {
    (PayoutStatus.PENDING, TransferEvent.DELIVERED): (
        "the provider confirms delivery, or an administrator completes a manual payout"
    ),
    (PayoutStatus.PENDING, TransferEvent.FAILED): "the provider rejects the transfer, or it fails",
    (
        PayoutStatus.PENDING,
        TransferEvent.REVERSED,
    ): "the transfer is reversed before delivery was confirmed",
    (PayoutStatus.PENDING, TransferEvent.REJECTED): "an administrator rejects the payout",
    (PayoutStatus.COMPLETED, TransferEvent.REVERSED): "the bank returns the money",
}


def _steps(
    table: Mapping[tuple[StrEnum, StrEnum], StrEnum], texts: Mapping[tuple[StrEnum, StrEnum], str]
) -> list[Transition]:
    """Raises KeyError at start-up for a transition without a text, so that none is missing."""
    return [Transition(str(step[0]), texts[step], str(after)) for step, after in table.items()]


PAYMENT_STEPS = _steps(payments.NEXT, PAYMENT_TEXTS)  # type: ignore[arg-type]
PAYOUT_STEPS = _steps(payouts.NEXT, PAYOUT_TEXTS)  # type: ignore[arg-type]

SANDBOX_ACCOUNTS = {
    "0000000000": "Delivered.",
    sandbox.FAILS: "Accepted and debited, then fails with `gateway_payout_failed` and is refunded.",
    sandbox.INVALID: "Rejected with 422 `invalid_beneficiary`.",
    sandbox.STAYS_PENDING: "Stays pending.",
    sandbox.PROVIDER_POOR: "Rejected with 422 `provider_insufficient_balance`.",
}


SANDBOX_KINDS = ("providera", "providerb", "providerc")


class SandboxBank(msgspec.Struct, frozen=True):
    name: str
    codes: list[str]  # the codes of providers A, B and C


SANDBOX_BANKS = [
    SandboxBank(bank.name, [sandbox.BANKS[kind][place].code for kind in SANDBOX_KINDS])
    for place, bank in enumerate(sandbox.BANKS["providera"])
]
