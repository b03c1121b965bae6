"""A payment, its statuses and its charges."""

from datetime import datetime
from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger.transactions import Scenario
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.commission import Quote
from manilla.prices import price as prices
from manilla.prices.price import NO_PRICE, TransactionPrice, Way
from manilla.providers.port import Channel

# The provider name in sandbox charges and payments. No provider account can have this name.
SANDBOX = "sandbox"


class PaymentStatus(StrEnum):
    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"  # the error code tells whether the payment was declined, canceled or expired


class PaymentErrorCode(StrEnum):
    INSUFFICIENT_FUNDS = "INSUFFICIENT_FUNDS"
    PAYMENT_DECLINED = "PAYMENT_DECLINED"
    EXPIRED_SESSION = "EXPIRED_SESSION"
    PAYMENT_CANCELED = "PAYMENT_CANCELED"


BY_MERCHANT = {"by": "merchant"}  # facts in the timeline of a payment that the merchant canceled
DETAILS = ("description",)  # payment fields that pages and exports show as details


class PaymentTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a payment request that are stored unchanged with the payment."""

    ref_trx: str
    ipn_url: str  # notification URL; if empty, no notification is sent
    success_redirect: str | None = None
    cancel_redirect: str | None = None
    description: str | None = None
    customer_name: str | None = None
    customer_email: str | None = None
    allow_payment_methods: list[str] = []
    is_legacy: bool = False
    scenario: Scenario | None = None
    link_id: str | None = None  # the payment link that the customer used
    customer_reference: str | None = None  # the merchant's reference of the customer
    # Only for a transfer into an account of the customer: the account, and the payer as JSON.
    account_id: str | None = None
    payer: str | None = None
    saves_way: bool = False  # checkout offers to save the customer's card
    saved_way: str | None = None  # the way that was saved, or that is charged again, as JSON

    @property
    def details(self) -> dict[str, str | None]:
        return {name: getattr(self, name) for name in DETAILS}


class NewPayment(PaymentTerms, frozen=True, kw_only=True, omit_defaults=True):
    """The database columns that are written when a payment is created."""

    merchant_id: int
    trx_id: str
    environment: Environment
    currency: str
    amount_minor: int
    commission_minor: int
    commission_bearer: CommissionBearer
    # The taxes on top that the wallet pays, and those that the customer pays.
    tax_minor: int = 0
    customer_tax_minor: int = 0
    price: str | None = None  # the `TransactionPrice` as JSON; None: neither plan nor tax applies
    remarks: str | None
    created_at: datetime
    expires_at: datetime
    traceparent: str | None = None  # the trace of the request, or None if tracing was off
    split: str | None = None  # how the payment is divided, or None if it is not


class Payment(NewPayment, frozen=True, kw_only=True, omit_defaults=False):
    status: PaymentStatus
    error_code: PaymentErrorCode | None
    commission_trx_id: str | None
    updated_at: datetime
    opened_at: datetime | None
    credited_charge: str | None
    refunded_minor: int
    # The amount that the customer has paid, or None if no rule for wrong amounts was applied.
    received_minor: int | None = None
    language: str | None = None  # in which the customer sees checkout; None is English
    disputed_minor: int = 0  # what disputes hold or took, with the customer's commission

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX

    @property
    def charges_way(self) -> bool:
        """Whether the merchant charges a saved way to pay, without checkout."""
        return self.saved_way is not None and not self.saves_way

    @property
    def refundable(self) -> Money:
        """The part of the amount that can still be refunded, without the commission.

        A disputed amount cannot be refunded too.
        """
        is_paid = self.status is PaymentStatus.SUCCESS
        rest = max(0, self.amount_minor - self.refunded_minor - self.disputed_minor)
        return Money(self.currency, rest if is_paid else 0)

    @property
    def disputed(self) -> Money:
        return Money(self.currency, self.disputed_minor)

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def received(self) -> Money:
        """The amount that the customer has paid, without money that is held for review."""
        if self.received_minor is not None:
            return Money(self.currency, self.received_minor)
        is_paid = self.status is PaymentStatus.SUCCESS
        return self.quote.customer_pays if is_paid else Money(self.currency, 0)

    @property
    def rest(self) -> Money:
        """The amount that the customer still has to pay: the amount due minus partial payments."""
        due = self.quote.customer_pays
        return Money(self.currency, max(0, due.minor - (self.received_minor or 0)))

    @property
    def refunded(self) -> Money:
        return Money(self.currency, self.refunded_minor)

    @property
    def quote(self) -> Quote:
        commission, tax, customer_tax = (
            Money(self.currency, minor)
            for minor in (self.commission_minor, self.tax_minor, self.customer_tax_minor)
        )
        return Quote(self.amount, commission, self.commission_bearer, customer_tax, tax)

    @property
    def transaction_price(self) -> TransactionPrice:
        return NO_PRICE if self.price is None else prices.read(self.price)


class ChargeStatus(StrEnum):
    # The charge is saved and is being sent to the provider.
    # A charge with a reason had an unusable response, and may exist at the provider.
    OPENING = "opening"
    OPEN = "open"  # the customer can pay it
    PAID = "paid"  # credited to the merchant
    PART = "part"  # the customer paid a part; another charge requests the rest
    SUSPENSE = "suspense"  # the money is held until an administrator decides
    FAILED = "failed"
    EXPIRED = "expired"


class Charge(msgspec.Struct, frozen=True):
    """One attempt to collect a payment through a provider, with its own reference."""

    merchant_id: int
    reference: str
    trx_id: str
    number: int
    method_code: str
    provider: str
    currency: str
    amount_minor: int
    status: ChargeStatus
    created_at: datetime
    checkout_url: str | None = None
    bank_name: str | None = None
    account_number: str | None = None
    account_name: str | None = None
    account_expires_at: datetime | None = None
    reason: str | None = None
    paid_minor: int | None = None
    error_code: PaymentErrorCode | None = None  # why the provider declined the charge
    # The channel that the customer chose. None if the customer decides on the provider's page.
    channel: Channel | None = None
    credit_minor: int = 0  # the part of the paid amount that is in customer_credit now
    # The amount that arrived later, in addition to the paid amount, and was posted to suspense.
    excess_minor: int = 0
    # The provider's reference, if the provider created the charge itself and does not know ours.
    their_reference: str | None = None
    way_id: str | None = None  # the saved way that the charge saves, or charges again

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def at_provider(self) -> str:
        """The reference by which the provider knows the charge."""
        return self.their_reference or self.reference

    @property
    def is_bank_transfer(self) -> bool:
        return self.account_number is not None

    @property
    def way_key(self) -> str:
        """How the customer pays, as in `TransactionPrice.ways`."""
        way = Way.BANK_TRANSFER if self.is_bank_transfer else Way(self.channel or Way.HOSTED)
        return f"{self.method_code}/{way}"

    @property
    def paid(self) -> Money:
        return Money(self.currency, self.paid_minor or 0)

    @property
    def credit(self) -> Money:
        return Money(self.currency, self.credit_minor)

    @property
    def has_arrived(self) -> bool:
        """Whether the charge's money has been posted to the ledger."""
        return self.status in (ChargeStatus.PAID, ChargeStatus.PART, ChargeStatus.SUSPENSE)

    @property
    def accepted(self) -> Money:
        """The amount that the provider should report: the accepted amount or the requested one."""
        is_accepted = self.status in (ChargeStatus.PAID, ChargeStatus.PART)
        return self.paid if is_accepted and self.paid_minor is not None else self.amount

    @property
    def is_undecided(self) -> bool:
        return self.status in (ChargeStatus.OPENING, ChargeStatus.OPEN)

    @property
    def is_uncertain(self) -> bool:
        """Whether it is unknown if the provider has created the charge.

        The customer has not seen such a charge. A job queries its status, as for any open charge.
        """
        return self.status is ChargeStatus.OPENING and self.reason is not None

    @property
    def is_payable(self) -> bool:
        """Whether the customer has seen, or will see, how to pay the charge."""
        return self.is_undecided and not self.is_uncertain
