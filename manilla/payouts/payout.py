"""A payout and its statuses."""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.kit.price import Price
from manilla.kit.texts import Line
from manilla.ledger.transactions import Scenario
from manilla.methods.method import AUTO
from manilla.prices import price as prices
from manilla.prices.price import NO_PRICE, Purpose, TransactionPrice
from manilla.providers.port import KnownAs
from manilla.transfers.refusals import PayoutErrorCode


class PayoutStatus(StrEnum):
    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"  # the transfer was rejected, failed or was reversed; the wallet was refunded
    CANCELED = "canceled"  # an administrator rejected the payout; the wallet was refunded


class PayoutDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Optional texts that merchants send. Pages, exports and commands show them as details."""

    description: Annotated[Line, Meta(max_length=255)] | None = None


DETAILS = PayoutDetails.__struct_fields__


class ReportedField(msgspec.Struct, frozen=True):
    """A reference that providers report, and how pages and receipts show it."""

    name: str  # name of the column and of the field in `port.Sent` and `port.TransferState`
    label: str
    title: str  # a longer label, for pages that have space for it
    column: str  # the column's name in lists
    hint: str = ""  # what merchants can do with the reference

    @property
    def copy_label(self) -> str:
        return f"Copy {self.label[0].lower()}{self.label[1:]}"


REPORTED = (
    ReportedField(
        name="session_id",
        label="Session ID",
        title="Session ID (NIP)",
        column="session",
        hint="The beneficiary\u2019s bank can trace the transfer with this ID.",
    ),
)
REPORTED_NAMES = tuple(field.name for field in REPORTED)
REPORTED_COLUMNS = ("provider_reference", *REPORTED_NAMES)  # merchants do not see the first column


class PayoutTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a payout request that are stored unchanged with the payout.

    They include the payout's details, which were validated before.
    """

    ref_trx: str
    ipn_url: str  # notification URL; if empty, no notification is sent
    description: str | None = None
    scenario: Scenario | None = None
    ordered_by: str | None = None  # name of the dashboard user, or None for an API request
    purpose: Purpose | None = None  # why it may be exempt from a tax

    @property
    def details(self) -> dict[str, str | None]:
        return {name: getattr(self, name) for name in DETAILS}


class NewPayout(PayoutTerms, frozen=True, kw_only=True, omit_defaults=True):
    """The database columns that are written when a payout is created."""

    merchant_id: int
    trx_id: str
    environment: Environment
    currency: str
    amount_minor: int
    fee_minor: int
    method_id: int
    method_code: str
    method_name: str
    provider: str | None
    beneficiary: dict[str, Any]
    account_name: str | None
    remarks: str | None
    created_at: datetime
    # The provider's bank code: None if the merchant chose the provider, empty if it is unknown.
    rail_bank_code: str | None = None
    traceparent: str | None = None  # the trace of the request, or None if tracing was off
    tax_minor: int = 0  # the taxes on top of the fee
    price: str | None = None  # the `TransactionPrice` as JSON; None: neither plan nor tax applies

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def fee(self) -> Money:
        return Money(self.currency, self.fee_minor)

    @property
    def payable(self) -> Money:
        """The amount debited from the wallet."""
        return Price(self.amount, self.fee, self.tax_minor).debit

    @property
    def tax(self) -> Money:
        return Money(self.currency, self.tax_minor)

    @property
    def transaction_price(self) -> TransactionPrice:
        return NO_PRICE if self.price is None else prices.read(self.price)

    @property
    def refundable(self) -> Money:
        """The amount that is refunded if the payout fails: without taxes that are not returned."""
        kept = sum(tax.minor for tax in self.transaction_price.owed if not tax.returned)
        return self.payable - Money(self.currency, kept)


class Payout(NewPayout, frozen=True, kw_only=True, omit_defaults=False):
    status: PayoutStatus
    error_code: PayoutErrorCode | None
    guidance: str | None
    is_reversed: bool
    began_at: datetime | None
    accepted_at: datetime | None
    provider_reference: str | None
    provider_fee_minor: int | None
    bank_reference: str | None
    sent_reference: str | None  # the reference sent to the provider; None if it was the trx_id
    session_id: str | None  # id of the interbank transfer (NIP)
    updated_at: datetime
    destination: str | None  # the result of the SQL function `payout_destination`

    @property
    def reported(self) -> list[tuple[ReportedField, str]]:
        """The references that the provider has reported and that merchants see."""
        return [(field, text) for field in REPORTED if (text := getattr(self, field.name))]

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX

    @property
    def is_open(self) -> bool:
        return self.status is PayoutStatus.PENDING

    @property
    def sent_at(self) -> datetime | None:
        return self.began_at

    @property
    def age(self) -> timedelta:
        """The time since the payout was first sent, not counting time on hold."""
        return datetime.now(UTC) - (self.began_at or self.created_at)

    @property
    def on_behalf(self) -> bool:
        return False

    @property
    def may_be_sent(self) -> bool:
        """False if a provider already has the payout, so that only its status may be queried."""
        return self.rail_bank_code != ""

    @property
    def is_routed(self) -> bool:
        """Whether the provider was chosen automatically."""
        return self.rail_bank_code is not None

    @property
    def known_as(self) -> KnownAs:
        return KnownAs(sent_reference=self.sent_reference)

    @property
    def case_trx_id(self) -> str:
        return self.trx_id

    @property
    def is_by_api(self) -> bool:
        return self.ordered_by is None

    @property
    def is_manual(self) -> bool:
        return self.provider is None

    @property
    def bank(self) -> str:
        """The bank code, or the bank's name for a manual payout."""
        return str(self.beneficiary.get("bank_code") or self.beneficiary.get("Bank Name", ""))

    @property
    def bank_list(self) -> str | None:
        """The provider that defines the bank code: AUTO for our registry, None for a bank name."""
        return AUTO if self.is_routed else self.provider

    @property
    def account_number(self) -> str:
        given = self.beneficiary
        return str(given.get("account_number") or given.get("Account Number", ""))
