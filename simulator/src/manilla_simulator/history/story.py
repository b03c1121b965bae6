"""The types of events ("stories") in the demo history."""

import csv
import io
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

import msgspec

from manilla.bulk.file import COLUMNS
from manilla.kit.environment import Environment
from manilla.methods.method import Flow
from manilla_simulator.history.businesses import Business

# The simulator forces a fixed outcome for transfers to these account numbers.
FAILS, CANNOT_BE_RESOLVED = "0000000001", "0000000002"


class Ending(StrEnum):
    PAID = "paid"
    DECLINED = "declined"
    CANCELED = "canceled"
    EXPIRED = "expired"
    UNDERPAID = "underpaid"


ENDINGS = (Ending.PAID,) * 44 + (Ending.DECLINED,) * 3 + (Ending.CANCELED,) * 2 + (Ending.EXPIRED,)


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """An event in a merchant's history."""

    at: datetime
    business: Business
    reference: str  # the reference of the transaction or payout file
    minutes: float = 2.0  # duration of the story

    @property
    def is_sandbox(self) -> bool:
        return getattr(self, "environment", Environment.PRODUCTION) is Environment.SANDBOX

    @property
    def ends(self) -> datetime:
        return self.at + timedelta(minutes=self.minutes)


class PaymentStory(Story, frozen=True, kw_only=True):
    environment: Environment
    amount: Decimal
    article: str
    customer: str
    flow: Flow
    ending: Ending
    method: str | None = None  # None means any method with this flow.
    is_heard: bool = True  # True if the merchant's server accepts notifications


class PayoutStory(Story, frozen=True, kw_only=True):
    environment: Environment
    amount: Decimal
    bank: str
    account: str
    text: str
    is_manual: bool = False

    @property
    def beneficiary(self) -> dict[str, str]:
        if not self.is_manual:
            return {"bank_code": self.bank, "account_number": self.account}
        name = "Adekunle Motors"
        return {"bank_name": "GTBank", "account_number": self.account, "account_name": name}


class RefundStory(Story, frozen=True, kw_only=True):
    """A refund. `reference` is the payment's reference."""

    reason: str


class ReversalStory(Story, frozen=True, kw_only=True):
    """The bank returns a completed payout. `reference` is the payout's reference."""


class ResolutionStory(Story, frozen=True, kw_only=True):
    """An administrator resolves a payment's case. `reference` is the payment's reference."""

    note: str


class SettlementStory(Story, frozen=True, kw_only=True):
    """The merchant settles its balance to its own bank account."""

    number: int  # the sequence number of the merchant's settlement
    reserve: Decimal  # the amount that the settlement leaves in the wallet


class BulkStory(Story, frozen=True, kw_only=True):
    """A bulk payout. `reference` is the file's name."""

    # Each row has an amount, a bank, an account number and an account name.
    rows: Sequence[tuple[str, str, str, str]]

    @property
    def file(self) -> bytes:
        text = io.StringIO()
        lines = csv.writer(text)
        lines.writerow(COLUMNS)
        for number, (amount, bank, account, name) in enumerate(self.rows):
            reference = f"CRAFT-{number + 1}"
            lines.writerow((amount, bank, account, name, reference, "Work of the week"))
        return text.getvalue().encode()


# the types of stories that create a transaction or payout file
CREATING = (PaymentStory, PayoutStory, BulkStory)
