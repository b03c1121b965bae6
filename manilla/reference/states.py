"""The steps of payments and payouts, and the sandbox's values: from the code, in plain words."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from manilla.payments import states as payments
from manilla.payments.states import Standing
from manilla.payouts import sandbox
from manilla.payouts import states as payouts
from manilla.payouts.payout import Status
from manilla.providers.port import Provider


class Step(msgspec.Struct, frozen=True):
    before: str
    text: str
    after: str


PAYMENT_TEXTS: Mapping[tuple[Standing, payments.Event], str] = {
    (Standing.PENDING, payments.Event.PAID): "the provider says that it was paid, as asked for",
    (Standing.PENDING, payments.Event.DECLINED): "declined, in the sandbox",
    (Standing.PENDING, payments.Event.CANCELED): "the customer cancels on checkout",
    (Standing.PENDING, payments.Event.EXPIRED): (
        "nobody has paid when the link ends; the error code is the last decline's, if there was one"
    ),
    (Standing.DECLINED, payments.Event.PAID): "a charge turns out to be paid after all",
    (Standing.CANCELED, payments.Event.PAID): "the customer has paid all the same",
    (Standing.EXPIRED, payments.Event.PAID): "the money comes late, by bank transfer",
}
PAYOUT_TEXTS: Mapping[tuple[Status, payouts.Event], str] = {
    (Status.PENDING, payouts.Event.DELIVERED): (
        "the provider says that it arrived, or a person paid it by hand"
    ),
    (Status.PENDING, payouts.Event.FAILED): "the provider refused it, or it failed on its way",
    (Status.PENDING, payouts.Event.REVERSED): "it came back before we knew that it had arrived",
    (Status.PENDING, payouts.Event.REJECTED): "an administrator rejects a manual one",
    (Status.COMPLETED, payouts.Event.REVERSED): "the bank sent the money back",
}


def _steps(
    table: Mapping[tuple[StrEnum, StrEnum], StrEnum], texts: Mapping[tuple[StrEnum, StrEnum], str]
) -> list[Step]:
    """A step that has no text yet is a KeyError at the start: it must not be left out silently."""
    return [Step(str(step[0]), texts[step], str(after)) for step, after in table.items()]


PAYMENT_STEPS = _steps(payments.NEXT, PAYMENT_TEXTS)  # type: ignore[arg-type]
PAYOUT_STEPS = _steps(payouts.NEXT, PAYOUT_TEXTS)  # type: ignore[arg-type]

SANDBOX_ACCOUNTS = {
    "0000000000": "Is delivered.",
    sandbox.FAILS: "Is accepted and debited, then fails and is refunded: `gateway_payout_failed`.",
    sandbox.INVALID: "Is refused: 422 `invalid_beneficiary`.",
    sandbox.STAYS_PENDING: "Stays pending.",
    sandbox.PROVIDER_POOR: "Is refused: 422 `provider_insufficient_balance`.",
}


class SandboxBank(msgspec.Struct, frozen=True):
    name: str
    codes: list[str]  # of providers A, B and C


SANDBOX_BANKS = [
    SandboxBank(bank.name, [sandbox.BANKS[provider][place].code for provider in Provider])
    for place, bank in enumerate(sandbox.BANKS[Provider.A])
]
