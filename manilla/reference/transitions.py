"""Status transitions and sandbox test values for the documentation, derived from the code."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from manilla.beneficiaries import sandbox
from manilla.kit.money import Money
from manilla.payments import sandbox_amounts
from manilla.payments import states as payments
from manilla.payments.states import PaymentEvent, PaymentState
from manilla.payouts import states as payouts
from manilla.payouts.payout import PayoutStatus
from manilla.refunds import states as refunds
from manilla.refunds.refund import RefundStatus
from manilla.transfers.events import TransferEvent


class Transition(msgspec.Struct, frozen=True):
    before: str
    text: str
    after: str


# Maps the previous status and the event to the reason for the status change.
PAYMENT_TEXTS = {
    PaymentState.PENDING: {
        PaymentEvent.PAID: "the provider confirms the payment, with the correct amount",
        PaymentEvent.DECLINED: "the payment is declined in the sandbox",
        PaymentEvent.CANCELED: "the customer cancels on checkout",
        PaymentEvent.EXPIRED: (
            "the link expires unpaid; if a charge was declined, its error code is returned"
        ),
    },
    PaymentState.DECLINED: {
        PaymentEvent.PAID: "the provider later confirms that a charge was paid"
    },
    PaymentState.CANCELED: {PaymentEvent.PAID: "the customer paid despite canceling"},
    PaymentState.EXPIRED: {PaymentEvent.PAID: "a bank transfer arrives late"},
}
PAYOUT_TEXTS = {
    PayoutStatus.PENDING: {
        TransferEvent.DELIVERED: (
            "the provider confirms delivery, or an administrator completes a manual payout"
        ),
        TransferEvent.FAILED: "the provider rejects the transfer, or it fails",
        TransferEvent.REVERSED: "the transfer is reversed before delivery was confirmed",
        TransferEvent.REJECTED: "an administrator rejects the payout",
    },
    PayoutStatus.COMPLETED: {TransferEvent.REVERSED: "the bank returns the money"},
}
REFUND_TEXTS = {
    RefundStatus.PENDING: {
        TransferEvent.DELIVERED: "the customer has the money",
        TransferEvent.FAILED: "the provider rejects the refund, or it fails",
        TransferEvent.REJECTED: "an administrator rejects the refund",
    },
}


def _steps(
    table: Mapping[Any, StrEnum], texts: Mapping[Any, Mapping[Any, str]]
) -> list[Transition]:
    """Returns the status transitions. Raises `KeyError` at startup if a transition has no text."""
    return [
        Transition(str(before), texts[before][event], str(after))
        for (before, event), after in table.items()
    ]


PAYMENT_STEPS = _steps(payments.NEXT, PAYMENT_TEXTS)
PAYOUT_STEPS = _steps(payouts.NEXT, PAYOUT_TEXTS)
REFUND_STEPS = _steps(refunds.NEXT, REFUND_TEXTS)

SANDBOX_ACCOUNTS = {
    "0000000000": "The payout is delivered.",
    sandbox.FAILS: "The payout is debited, fails with `gateway_payout_failed` and is refunded.",
    sandbox.INVALID: "The payout is rejected with 422 `invalid_beneficiary`.",
    sandbox.STAYS_PENDING: "The payout stays pending.",
    sandbox.PROVIDER_POOR: "The payout is rejected with 422 `provider_insufficient_balance`.",
    sandbox.OTHER_NAME: "The payout is delivered. In a payout file, the names differ.",
}

_AMOUNTS = {
    **{minor: f"`failed`, `{code}`" for minor, code in sandbox_amounts.FAILURES.items()},
    sandbox_amounts.STAYS_PENDING: "stays pending until the link expires, then `EXPIRED_SESSION`",
}
SANDBOX_AMOUNTS = {str(Money("NGN", minor).amount): text for minor, text in _AMOUNTS.items()}


SANDBOX_KINDS = ("providera", "providerb", "providerc")


class SandboxBank(msgspec.Struct, frozen=True):
    name: str
    codes: list[str]  # the bank codes of example providers A, B and C


SANDBOX_BANKS = [
    SandboxBank(bank.name, [sandbox.BANKS[kind][place].code for kind in SANDBOX_KINDS])
    for place, bank in enumerate(sandbox.BANKS["providera"])
]
