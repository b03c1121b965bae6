"""The API's requests as typed dictionaries, and its responses as dataclasses.

The client ignores unknown response fields, because later API versions may add fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, NotRequired, TypeAlias, TypedDict
from urllib.parse import urlsplit

# A string is a decimal number in major units, such as "1500.50".
Amount: TypeAlias = Decimal | int | str


class PaymentOrder(TypedDict):
    payment_amount: Amount
    currency_code: str
    ref_trx: str
    success_redirect: str
    cancel_redirect: str
    ipn_url: str
    description: NotRequired[str | None]
    customer_name: NotRequired[str | None]
    customer_email: NotRequired[str | None]
    allow_payment_methods: NotRequired[str | Sequence[str] | None]
    save_for: NotRequired[str | None]  # the customer whose card checkout offers to save
    split: NotRequired["str | SplitTerms | None"]


class CustomerOrder(TypedDict):
    """A customer to create. `bvn` and `nin` are encrypted and never returned."""

    reference: str
    name: str
    email: NotRequired[str | None]
    phone: NotRequired[str | None]
    bvn: NotRequired[str | None]
    nin: NotRequired[str | None]
    ipn_url: NotRequired[str | None]  # for transfers to the customer's accounts


class CustomerChange(TypedDict, total=False):
    """The fields of a customer to change. None removes a value, except the name."""

    name: str
    email: str | None
    phone: str | None
    bvn: str | None
    nin: str | None
    ipn_url: str | None


class AccountsOrder(TypedDict, total=False):
    """The account numbers to request: one with each method, or `count` with your first methods."""

    method_codes: Sequence[str] | None
    count: Literal[1, 2]
    ipn_url: str | None  # for transfers to these accounts, instead of the customer's


class TransferOrder(TypedDict):
    """A test transfer to a customer's account in the sandbox."""

    account_id: str
    amount: Amount
    payer_name: NotRequired[str]


class WayCharge(TypedDict):
    """A charge of a customer's saved way to pay."""

    way_id: str
    payment_amount: Amount
    currency_code: str
    ref_trx: str
    ipn_url: str
    description: NotRequired[str | None]
    split: NotRequired["str | SplitTerms | None"]


class MandateOrder(TypedDict):
    """A mandate (direct debit) that the customer must confirm."""

    amount_max: Amount
    currency_code: str
    bank_code: str
    account_number: str
    customer_address: str
    description: str
    end_date: str
    redirect_url: str


class PayoutOrder(TypedDict):
    """A payout request. Pass either `beneficiary` or `withdraw_account_id`."""

    payout_amount: Amount
    currency_code: str
    ref_trx: str
    ipn_url: str
    withdraw_method_id: int
    beneficiary: NotRequired[Mapping[str, str] | None]
    withdraw_account_id: NotRequired[int | None]
    description: NotRequired[str | None]
    purpose: NotRequired[Literal["salary", "own_account"]]


class RefundOrder(TypedDict):
    """A refund request. Without `amount`, the payment's remaining amount is refunded."""

    trx_id: str
    ref_trx: str
    amount: NotRequired[Amount | None]
    reason: NotRequired[str | None]


class SplitReceiver(TypedDict, total=False):
    """A receiver. Exactly one of `merchant_id` and `sub_account` names it."""

    merchant_id: int
    sub_account: str
    percent: Decimal | int
    fixed: Decimal | int
    minimum: Decimal | int


class SplitTerms(TypedDict):
    """A rule that divides a payment between you and other receivers."""

    receivers: Sequence[SplitReceiver]
    rest: NotRequired[str | int]
    fees: NotRequired[str | int]
    refunds: NotRequired[Literal["proportional", "owner"]]
    disputes: NotRequired[str | int]
    hold: NotRequired[Literal["none", "release"] | int]


class SplitOrder(SplitTerms):
    name: str
    default: NotRequired[bool]


class SplitChange(TypedDict, total=False):
    """The fields to change. The result is a new version of the split."""

    name: str
    receivers: Sequence[SplitReceiver]
    rest: str | int
    fees: str | int
    refunds: Literal["proportional", "owner"]
    disputes: str | int
    hold: Literal["none", "release"] | int
    default: bool


class DisputeEvidence(TypedDict, total=False):
    """The evidence to save. What you omit does not change, and None removes it."""

    text: str | None
    fields: Mapping[str, str] | None


class PaymentLinkOrder(TypedDict):
    title: str
    currency_code: str
    amount: NotRequired[Amount | None]
    description: NotRequired[str | None]
    expires_at: NotRequired[datetime | None]
    single_use: NotRequired[bool | None]
    success_redirect: NotRequired[str | None]
    customer_reference: NotRequired[str | None]  # whose account numbers the page shows
    split: NotRequired["str | SplitTerms | None"]


class PaymentLinkChange(TypedDict, total=False):
    """The fields of a payment link to change. The value None removes an optional field."""

    title: str
    amount: Amount | None
    description: str | None
    expires_at: datetime | None
    success_redirect: str | None


class EndpointOrder(TypedDict):
    url: str
    events: Sequence[str]
    description: NotRequired[str | None]


class EndpointChange(TypedDict, total=False):
    url: str | None
    events: Sequence[str] | None
    description: str | None
    status: Literal["enabled", "disabled"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommissionPart:
    """A part of a commission or fee. The parts sum to the whole."""

    kind: str
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedShare:
    receiver: str
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxOfTransaction:
    name: str
    base: str
    rate: Decimal | None
    amount: Decimal
    included: bool
    borne_by: str
    collected_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentSplit:
    """How a new payment is divided. The owner is one of the receivers."""

    id: str | None
    version: int | None
    shares: tuple[PlannedShare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentInfo:
    ref_trx: str
    description: str | None
    ipn_url: str
    cancel_redirect: str | None
    success_redirect: str | None
    customer_name: str | None
    customer_email: str | None
    merchant_id: int
    merchant_name: str
    amount: Decimal
    currency_code: str
    environment: str
    is_sandbox: bool
    allow_payment_methods: tuple[str, ...]
    merchant_payment_methods_restricted: bool
    merchant_payment_method_ids: tuple[int, ...]
    merchant_payment_method_codes: tuple[str, ...]
    base_amount: Decimal
    api_fee_bearer: str
    commission_bearer: str
    api_fee_percent: Decimal
    api_commission_fee: Decimal
    commission_fee: Decimal
    customer_pays: Decimal
    merchant_receives: Decimal
    commission_parts: tuple[CommissionPart, ...] = ()
    taxes: tuple[TaxOfTransaction, ...] = ()
    split: PaymentSplit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentSession:
    payment_url: str
    info: PaymentInfo
    expires_at: datetime | None = None  # when `payment_url` stops working

    @property
    def trx_id(self) -> str:
        """The payment's id, which is part of the payment URL. Store the id with your order."""
        return urlsplit(self.payment_url).path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commission:
    base_amount: Decimal
    commission_fee: Decimal
    commission_bearer: str
    customer_paid: Decimal
    merchant_received: Decimal
    commission_trx_id: str | None = None
    commission_parts: tuple[CommissionPart, ...] = ()
    taxes: tuple[TaxOfTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    name: str | None
    email: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentWay:
    """The saved way to pay that a payment saved or charged."""

    id: str
    kind: str
    label: str
    expires: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPayer:
    """Who sent a transfer into a customer's account, as far as the provider reports it."""

    name: str | None
    bank: str | None
    account_number: str | None
    session_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedPayment:
    status: Literal["success"]
    trx_id: str
    amount: Decimal
    fee: Decimal
    currency: str
    net_amount: Decimal
    commission: Commission
    customer: Customer
    description: str | None
    created_at: datetime
    updated_at: datetime
    ref_trx: str | None = None  # None only if the API is older than the client
    # The API sends this field only if the received amount differs from the amount due.
    amount_received: Decimal | None = None
    saved_way: PaymentWay | None = None
    # The customer whom the payment belongs to; for a transfer, also its account and sender.
    customer_reference: str | None = None
    account_id: str | None = None
    payer: TransferPayer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedPayment:
    """A payment that is pending, or that failed with an error code."""

    status: Literal["pending", "failed"]
    trx_id: str
    ref_trx: str
    message: str
    event: str | None = None  # always "payment"
    error_code: str | None = None
    amount_received: Decimal | None = None  # The API sends this field only after a partial payment.
    created_at: datetime | None = None  # present only in lists


@dataclass(frozen=True, slots=True, kw_only=True)
class CanceledPayment:
    """A payment that can no longer be paid on checkout."""

    status: Literal["failed"]
    trx_id: str
    ref_trx: str
    message: str
    late_money: str  # whether money can still arrive: none, possible, reported or held
    event: str | None = None  # always "payment"
    error_code: str | None = None
    amount_received: Decimal | None = None  # The API sends this field only after a partial payment.


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedPaymentLink:
    id: str
    url: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentLink:
    id: str
    url: str
    status: str
    title: str
    amount: Decimal | None
    currency_code: str
    description: str | None
    expires_at: datetime | None
    single_use: bool
    success_redirect: str | None
    paid_count: int
    paid_amount: Decimal
    created_at: datetime
    customer_reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentLinkPage:
    data: tuple[PaymentLink, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    ssl_secured: str
    instant_processing: str
    global_support: str
    mobile_ready: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    production: str
    sandbox: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountApiKey:
    name: str | None  # None for the main key
    rights: tuple[str, ...]
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCommission:
    percent: Decimal
    fixed: Decimal
    minimum: Decimal | None
    maximum: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountMethod:
    """A gateway that checkout can offer, for amounts within its limits."""

    code: str
    name: str
    ways: tuple[str, ...]
    minimum: Decimal
    maximum: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountCurrency:
    """A currency in which you can take payments now."""

    code: str
    decimals: int
    minimum: Decimal
    maximum: Decimal
    daily_maximum: Decimal | None
    commission: AccountCommission
    methods: tuple[AccountMethod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MerchantAccount:
    """Your account, as the API key that signed the request sees it."""

    merchant_id: int
    name: str
    environment: str
    status: str
    api_key: AccountApiKey
    checkout_minutes: int
    checkout_origins: tuple[str, ...]
    commission_bearer: str
    currencies: tuple[AccountCurrency, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteInfo:
    site_name: str
    site_logo: str
    site_url: str
    gateway_name: str
    gateway_description: str
    features: Features
    environments: Environments
    api_version: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodField:
    """A beneficiary field of a payout method."""

    name: str
    type: str
    validation: str
    label: str | None = None
    api_auto_resolved: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutMethod:
    id: int
    name: str
    method_code: str
    type: str
    currency: str
    min_withdraw: Decimal
    max_withdraw: Decimal | None
    fields: tuple[MethodField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutMethods:
    currency_code: str
    methods: tuple[PayoutMethod, ...]

    def by_code(self, method_code: str) -> PayoutMethod:
        """Returns the method with this code.

        Unlike ids, codes are the same in all installations.
        """
        for method in self.methods:
            if method.method_code == method_code:
                return method
        raise LookupError(f"{method_code} is currently not offered in {self.currency_code}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutInfo:
    merchant_id: int
    merchant_name: str
    ref_trx: str
    ipn_url: str
    environment: str
    is_sandbox: bool
    api_merchant_payout: bool
    withdraw_method_id: int
    withdraw_method: str
    trx_id: str
    payout_amount: Decimal
    currency_code: str
    fee: Decimal
    net_amount: Decimal
    payable_amount: Decimal
    status: str
    processing_type: str
    purpose: str | None = None
    commission_parts: tuple[CommissionPart, ...] = ()
    taxes: tuple[TaxOfTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Payout:
    trx_id: str
    status: str
    info: PayoutInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredPayout:
    status: Literal["success"]
    trx_id: str
    ref_trx: str
    amount: Decimal
    fee: Decimal
    currency: str
    net_amount: Decimal
    description: str | None
    created_at: datetime
    updated_at: datetime
    event: str | None = None  # always "payout"
    # id of the interbank transfer (NIP), or None if the provider does not report it
    session_id: str | None = None
    commission_parts: tuple[CommissionPart, ...] = ()
    taxes: tuple[TaxOfTransaction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeliveredPayout:
    """A payout that is pending, or that failed with an error code and was refunded."""

    status: Literal["pending", "failed"]
    trx_id: str
    ref_trx: str
    message: str
    event: str | None = None  # always "payout"
    error_code: str | None = None
    created_at: datetime | None = None  # present only in lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    bank_code: str
    bank_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BankList:
    provider: str
    currency_code: str
    banks: tuple[Bank, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A status change of a transaction. `body` is the exact body of the event's notification."""

    id: str
    type: str
    trx_id: str
    ref_trx: str | None
    created_at: datetime
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    data: tuple[Event, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSecret:
    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpoint:
    id: str
    url: str
    events: tuple[str, ...]
    description: str | None
    status: str
    disabled_reason: str | None
    failing_since: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpointPage:
    data: tuple[WebhookEndpoint, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedEndpoint:
    id: str
    deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointTest:
    """Your server's response to a test event."""

    id: str
    status: str
    http_status: int | None
    milliseconds: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedResend:
    id: str
    since: datetime
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundInfo:
    merchant_id: int
    merchant_name: str
    ref_trx: str
    environment: str
    is_sandbox: bool
    trx_id: str
    payment_trx_id: str
    amount: Decimal
    currency_code: str
    reason: str | None
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    trx_id: str
    status: str
    info: RefundInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRefund:
    status: Literal["pending", "success", "failed"]
    trx_id: str
    ref_trx: str | None
    payment_trx_id: str
    amount: Decimal
    currency: str
    reason: str | None
    message: str
    created_at: datetime
    updated_at: datetime
    event: str | None = None  # always "refund"
    source: str | None = None  # "customer_credit" if the refunded money was never in the wallet


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverTerms:
    """A receiver of a split, with its part."""

    merchant_id: int | None = None
    sub_account: str | None = None
    percent: Decimal | None = None
    fixed: Decimal | None = None
    minimum: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The latest version of a rule that divides payments."""

    id: str
    version: int
    status: str  # active or disabled
    name: str
    receivers: tuple[ReceiverTerms, ...]
    rest: str
    fees: str
    refunds: str
    disputes: str
    hold: str  # none, release or days
    hold_days: int | None
    default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One receiver's share of a paid payment."""

    trx_id: str
    payment_trx_id: str
    merchant_id: int
    amount: Decimal
    currency: str
    status: str  # held, completed, short or returned
    withheld: Decimal
    returned: Decimal
    short: Decimal
    hold_until: datetime | None
    created_at: datetime
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentShares:
    trx_id: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAccount:
    id: str
    merchant_id: int
    name: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAccounts:
    data: tuple[SubAccount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFile:
    id: int
    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Your evidence. `fields` has values that the provider asks for."""

    text: str
    fields: dict[str, str]
    files: tuple[EvidenceFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """A customer's bank takes a payment back. Answer before `respond_by`."""

    id: str
    trx_id: str  # the same as `id`
    payment_trx_id: str
    ref_trx: str
    amount: Decimal
    currency: str
    status: str  # needs_response, submitted, won, lost or accepted
    stage: str
    category: str
    reason: str
    provider_reference: str
    opened_at: datetime
    respond_by: datetime
    missed: bool
    withheld: Decimal
    short: Decimal
    fee: Decimal
    evidence: Evidence
    rejection: str
    outcome_at: datetime | None
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedFile:
    id: int
    deleted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceTax:
    name: str
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceLine:
    account: str
    kind: str
    title: str
    count: int
    amount: Decimal  # negative if it was returned


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceParty:
    name: str
    address: str
    tax_id: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """The fees of a month, which were deducted already."""

    number: str
    type: str  # invoice or credit_note
    month: str  # such as 2026-12
    currency: str
    fee: Decimal
    taxes: tuple[InvoiceTax, ...]
    total: Decimal
    lines: tuple[InvoiceLine, ...]
    supplier: InvoiceParty
    customer: InvoiceParty
    corrects: str | None
    reason: str | None
    authority_reference: str | None
    authority_qr: str | None
    issued_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerInfo:
    """A customer of yours, whom your reference identifies."""

    reference: str
    id: str
    name: str
    email: str | None
    phone: str | None
    bvn_given: bool
    nin_given: bool
    ipn_url: str | None
    status: str  # active or disabled
    created_at: datetime
    updated_at: datetime
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerAccount:
    """A permanent account number of a customer at one bank."""

    id: str
    status: str  # pending, active, failed or closed
    bank_name: str | None
    bank_code: str | None
    account_number: str | None
    account_name: str | None
    currency: str
    method_code: str
    customer_reference: str
    created_at: datetime
    error_code: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerAccounts:
    data: tuple[CustomerAccount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedPayments:
    attached: int  # payments that were not attached before


@dataclass(frozen=True, slots=True, kw_only=True)
class SentTransfer:
    """A test transfer, which is a payment."""

    trx_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWay:
    """A customer's card or mandate. Only an active one can be charged."""

    id: str
    kind: str  # card or mandate
    status: str
    label: str
    expires: str | None
    currency: str
    consented_at: datetime | None
    created_at: datetime
    customer_action_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedWays:
    data: tuple[SavedWay, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeDecline:
    """Why a charge was declined. Do not repeat it if `kind` is hard."""

    code: str
    kind: str  # soft or hard
    retry_after: int | None = None  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedWay:
    """A charge of a saved way. If it is pending, wait for its result."""

    trx_id: str
    status: Literal["pending", "success", "failed"]
    info: PaymentInfo
    customer_action_url: str | None = None
    decline: ChargeDecline | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WalletBalance:
    currency_code: str
    available: Decimal
    in_flight: Decimal
    withheld: Decimal
    short: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    environment: str
    balances: tuple[WalletBalance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceInForce:
    """A line of your price plan."""

    direction: str
    way: str | None
    method_code: str | None
    percent: Decimal
    fixed: Decimal
    waived_below: Decimal | None
    minimum: Decimal | None
    maximum: Decimal | None
    rounded_to: Decimal
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxInForce:
    name: str
    directions: tuple[str, ...]
    base: str
    rate: Decimal | None
    amount: Decimal | None
    threshold: Decimal
    included: bool
    borne_by: str
    exempt: tuple[str, ...]
    collected_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PricesInForce:
    environment: str
    currency_code: str
    plan: str | None
    version: int | None
    commission_percent: Decimal
    lines: tuple[PriceInForce, ...]
    taxes: tuple[TaxInForce, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceTransaction:
    """One line of a wallet's statement."""

    trx_id: str
    ref_trx: str | None
    kind: str
    amount: Decimal
    balance_after: Decimal
    currency_code: str
    created_at: datetime
