"""The interface to a provider, and the three possible results of a call.

`Done` and `Refused` are conclusive, because the provider itself reported the result. Every other
result is `Unknown`: the provider may or may not have acted, and only a status query by reference
can find out.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from manilla.kit.money import Money

Value = TypeVar("Value")
AnyAnswer = TypeVar("AnyAnswer")


class Direction(StrEnum):
    PAY_IN = "pay_in"
    PAY_OUT = "pay_out"


class Channel(StrEnum):
    """The customer's payment instrument."""

    CARD = "card"
    BANK_TRANSFER = "bank_transfer"
    USSD = "ussd"


class RefusalCode(StrEnum):
    PROVIDER_INSUFFICIENT_BALANCE = "provider_insufficient_balance"
    INVALID_BENEFICIARY = "invalid_beneficiary"
    GATEWAY_PAYOUT_FAILED = "gateway_payout_failed"
    # The guidance says what an administrator must do at the provider.
    PAYOUT_FAILED = "payout_failed"
    PAYMENT_DECLINED = "PAYMENT_DECLINED"
    # A customer's account was not created. The guidance says what the merchant can change.
    ACCOUNT_DETAILS_REJECTED = "account_details_rejected"
    ACCOUNT_LIMIT_REACHED = "account_limit_reached"
    ACCOUNTS_NOT_ENABLED = "accounts_not_enabled"
    DISPUTE_ANSWER_REJECTED = "dispute_answer_rejected"  # the guidance has the provider's reason
    NOT_SUPPORTED = "not_supported"  # the provider's API has no such call


class Done(msgspec.Struct, Generic[Value], frozen=True):
    value: Value


class Refused(msgspec.Struct, frozen=True):
    code: RefusalCode
    guidance: str


class Unknown(msgspec.Struct, frozen=True):
    reason: str
    is_rail_down: bool = False  # True after a failed connection, a timeout or a server error
    never_sent: bool = False  # True if no byte of the request left this machine
    can_pass: bool = True  # False if every retry fails until an administrator acts
    # True if the provider responded, and only a person can look the object up at the provider.
    needs_lookup: bool = False


Answer = Done[Value] | Refused | Unknown

NO_STATEMENTS = Refused(
    RefusalCode.NOT_SUPPORTED,
    "The provider's API has no statements. Import a statement file instead.",
)


class TransferStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    REVERSED = "reversed"  # the bank returned the transfer after delivery
    # The amount came back, but the provider does not report whether the transfer was delivered.
    RETURNED = "returned"
    NOT_FOUND = "not_found"


class ReportedChargeStatus(StrEnum):
    PENDING = "pending"
    PAID = "paid"
    FAILED = "failed"
    EXPIRED = "expired"
    NOT_FOUND = "not_found"


class ReportedRefundStatus(StrEnum):
    PENDING = "pending"
    PAID = "paid"
    FAILED = "failed"
    NOT_FOUND = "not_found"


class ReportedAccountStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"
    NOT_FOUND = "not_found"


ReportedStatus = (
    ReportedChargeStatus | TransferStatus | ReportedRefundStatus | ReportedAccountStatus
)


class Bank(msgspec.Struct, frozen=True):
    code: str
    name: str


class ResolvedAccount(msgspec.Struct, frozen=True):
    account_name: str
    name_enquiry_reference: str | None = None


class TransferOrder(msgspec.Struct, frozen=True):
    reference: str  # our reference in the format of `transfer_reference`
    amount: Money
    bank_code: str
    account_number: str
    account_name: str
    narration: str
    customer_email: str
    notification_url: str
    name_enquiry_reference: str | None = None


class Sent(msgspec.Struct, frozen=True):
    """The provider has accepted the transfer. Only a status query shows whether it is delivered."""

    provider_reference: str | None
    fee: Money | None
    session_id: str | None = None  # the interbank transfer's id (NIP), for disputes with banks
    # The action that an administrator must take at the provider before the transfer continues.
    needs_action: str = ""


class TransferState(msgspec.Struct, frozen=True):
    status: TransferStatus
    amount: Money | None = None  # None if the provider does not report the amount
    fee: Money | None = None
    message: str = ""
    provider_reference: str | None = None
    session_id: str | None = None
    needs_action: str = ""


class ChargeOrder(msgspec.Struct, frozen=True):
    reference: str
    amount: Money
    description: str
    customer_name: str
    customer_email: str
    redirect_url: str
    notification_url: str
    merchant_name: str  # the merchant name that customers know
    # The customer's chosen instrument, or None if the customer chooses it on the provider's page.
    channel: Channel | None = None


class HostedCheckout(msgspec.Struct, frozen=True):
    checkout_url: str


class VirtualAccount(msgspec.Struct, frozen=True):
    bank_name: str
    account_number: str
    account_name: str
    amount: Money
    expires_at: datetime | None


class ReusableCard(msgspec.Struct, frozen=True, kw_only=True):
    """The card of a paid charge, which the provider can charge again."""

    token: str  # a secret: whoever has it and our keys can charge the card
    brand: str = ""
    last4: str = ""
    expires: date | None = None  # the last day of its last month


class ChargeState(msgspec.Struct, frozen=True):
    status: ReportedChargeStatus
    paid: Money | None = None
    fee: Money | None = None
    reason: str = ""
    provider_reference: str | None = None
    card: ReusableCard | None = None


class RefundOrder(msgspec.Struct, frozen=True):
    reference: str
    charge_reference: str
    amount: Money
    reason: str


class RefundState(msgspec.Struct, frozen=True):
    status: ReportedRefundStatus
    amount: Money | None = None  # None if the provider does not report the amount
    provider_reference: str | None = None
    needs_action: str = ""


class KnownAs(msgspec.Struct, frozen=True, kw_only=True):
    """Values other than our reference that identify a transfer or refund at a provider."""

    sent_reference: str | None = None  # our reference in the format in which it was sent
    provider_reference: str | None = None
    charge_reference: str | None = None  # only for refunds
    amount: Money | None = None
    sent_at: datetime | None = None
    # The provider's references for our other refunds of this charge.
    others: frozenset[str] = frozenset()


OUR_REFERENCE = KnownAs()


class LineKind(StrEnum):
    """The type of a statement line, if the provider reports the type."""

    CHARGE = "charge"
    TRANSFER = "transfer"
    REFUND = "refund"
    DISPUTE = "dispute"  # money that a dispute took or returned
    FEE = "fee"
    SETTLEMENT = "settlement"
    OTHER = "other"


# The types of lines in a provider statement that lists every balance change.
EVERY_MOVEMENT = frozenset(LineKind)


class StatementLine(msgspec.Struct, frozen=True, kw_only=True):
    """One change of our balance at the provider."""

    line_id: str  # the provider's id for the statement line
    booked_at: datetime
    amount: Money  # positive if the line increases our balance
    kind: LineKind = LineKind.OTHER
    reference: str | None = None  # our reference, or possibly the provider's reference
    provider_reference: str | None = None  # the provider's own reference
    description: str = ""
    balance_after: Money | None = None


class StatementPage(msgspec.Struct, frozen=True):
    lines: list[StatementLine]
    next: str | None  # the start of the next page, or None on the last page


class WebhookSubject(StrEnum):
    CHARGE = "charge"
    TRANSFER = "transfer"
    REFUND = "refund"
    # All refunds of a charge, identified by the charge's reference.
    CHARGE_REFUNDS = "charge_refunds"
    # A dispute, identified by the provider's id of it. The webhook only raises a job.
    DISPUTE = "dispute"
    # A customer's account, identified by our id of it.
    ACCOUNT = "account"
    # A transfer into a customer's account, identified by the provider's id of the transfer.
    ACCOUNT_TRANSFER = "account_transfer"
    # A mandate, identified by our reference. The webhook only raises a job.
    MANDATE = "mandate"


class Claim(msgspec.Struct, frozen=True):
    """The amount and currency in a webhook. A value is None if the webhook does not have it.

    An invalid amount is NaN, which does not equal any amount.
    """

    amount: Decimal | None = None
    currency: str | None = None

    def agrees_with(self, expected: Money) -> bool:
        is_same_currency = self.currency is None or self.currency == expected.currency
        return is_same_currency and (self.amount is None or self.amount == expected.amount)


class WebhookEvent(msgspec.Struct, frozen=True):
    """The transaction that a webhook is about.

    We query the provider before we act on the webhook.
    """

    kind: WebhookSubject
    reference: str
    # The webhook's contents, which must not contradict the provider's response to a query.
    claim: Claim | None = None
    claims_status: ReportedStatus | None = None
    session_id: str | None = None  # a later status query does not always return this id
    # Of a transfer into a customer's account, whose `reference` is the provider's own. It tells
    # the merchant, but not yet who gets the money.
    account_reference: str | None = None


class Forged(msgspec.Struct, frozen=True):
    """A webhook whose signature is missing or does not match its bytes."""


class Unreadable(msgspec.Struct, frozen=True):
    """A webhook with a valid signature, but with content that the contract does not describe."""

    reason: str


class ReportedDisputeStatus(StrEnum):
    NEEDS_RESPONSE = "needs_response"
    SUBMITTED = "submitted"
    WON = "won"
    LOST = "lost"
    ACCEPTED = "accepted"
    NOT_FOUND = "not_found"


class DisputeState(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute as the provider reports it."""

    provider_reference: str  # the provider's id of the dispute
    status: ReportedDisputeStatus
    charge_reference: str | None = None  # our reference of the disputed charge
    charge_provider_reference: str | None = None  # the provider's, if it does not report ours
    # The disputed amount. None if the provider does not report it, or no longer reports it.
    amount: Money | None = None
    stage: str = ""  # "new", "second", "pre-arbitration" and so on, as the provider says
    category: str = ""
    reason: str = ""
    opened_at: datetime | None = None
    respond_by: datetime | None = None
    fee: Money | None = None
    channel: Channel | None = None
    is_international: bool = False


class DisputePage(msgspec.Struct, frozen=True):
    disputes: list[DisputeState]
    next: str | None  # the start of the next page, or None on the last page
    # The provider's ids of disputes on this page whose contents cannot be interpreted.
    unclear: tuple[str, ...] = ()


class EvidenceField(msgspec.Struct, frozen=True):
    """A value that the provider asks for when it is answered."""

    name: str
    title: str
    is_required: bool = False


class EvidenceFile(msgspec.Struct, frozen=True):
    name: str
    media_type: str
    content: bytes


class DisputeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    provider_reference: str
    is_accepted: bool
    # The amount that the merchant accepts: the full amount to accept, zero to contest.
    amount: Money
    text: str = ""
    fields: Mapping[str, str] = {}
    files: tuple[str, ...] = ()  # the provider's names of uploaded files
    # The whole disputed amount. Without it, an adapter that can neither accept a part of a dispute
    # nor query its amount accepts nothing.
    disputed: Money | None = None


class DisputeDesk(Protocol):
    """Calls about disputes. Without them, people answer disputes at the provider."""

    can_list: bool  # False: only webhooks or people report disputes
    files_max: int  # how many uploaded files an answer can have
    needs_file: bool  # whether an answer that contests a dispute must have a file

    def evidence_fields(self, category: str) -> tuple[EvidenceField, ...]: ...

    async def listed(
        self, since: datetime, until: datetime, start: str | None = None
    ) -> Answer[DisputePage]: ...

    async def state(self, provider_reference: str) -> Answer[DisputeState]: ...

    async def upload(self, provider_reference: str, file: EvidenceFile) -> Answer[str]: ...

    async def answer(self, answer: DisputeAnswer) -> Answer[DisputeState]: ...


class AccountOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A permanent account for a customer, which accepts any amount."""

    reference: str  # our id of the account
    customer_name: str
    # Belongs to this account alone, because some providers identify a customer by the email.
    customer_email: str
    currency: str
    phone: str | None = None
    bvn: str | None = None
    nin: str | None = None


class KnownAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account that was requested before, with what the provider has reported about it."""

    reference: str
    customer_email: str
    currency: str
    provider_reference: str | None = None
    account_number: str | None = None
    holder: str | None = None
    bank_code: str | None = None


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    status: ReportedAccountStatus
    bank_name: str = ""
    bank_code: str = ""
    account_number: str = ""
    account_name: str = ""
    provider_reference: str | None = None
    holder: str | None = None  # the provider's id of the customer
    reason: str = ""


class Payer(msgspec.Struct, frozen=True):
    """Who sent a bank transfer. A value is None if the provider does not report it."""

    name: str | None = None
    bank: str | None = None
    account_number: str | None = None
    session_id: str | None = None


class AccountTransfer(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer into a customer's account, as the provider reports it."""

    reference: str  # the provider's, by which it can be queried and refunded
    status: ReportedChargeStatus
    paid: Money | None = None
    fee: Money | None = None
    payer: Payer = Payer()
    # What identifies the account: our reference if the provider reports it, otherwise its number.
    account_reference: str | None = None
    account_number: str | None = None
    holder: str | None = None
    paid_at: datetime | None = None
    statement_reference: str | None = None  # in statements, if it is not `reference`
    reason: str = ""


class TransferPage(msgspec.Struct, frozen=True):
    transfers: list[AccountTransfer]
    next: str | None  # the start of the next page, or None on the last page


class AccountDesk(Protocol):
    """Calls about permanent accounts of customers."""

    # The fields of `AccountOrder` that the provider requires, and those that it gets if known.
    needs: frozenset[str]
    uses: frozenset[str]
    # Whether an account that the provider does not know can be requested again, because the
    # provider rejects a second account with the same reference or customer.
    can_repeat: bool

    async def create(self, order: AccountOrder) -> Answer[AccountState]: ...

    async def state(self, known: KnownAccount) -> Answer[AccountState]: ...

    async def close(self, known: KnownAccount) -> Answer[AccountState]: ...

    async def transfer(self, reference: str) -> Answer[AccountTransfer]: ...

    async def transfers(
        self, known: KnownAccount, since: datetime, start: str | None = None
    ) -> Answer[TransferPage]:
        """Lists the paid transfers into the account since this time."""


class WayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A charge of a saved card, or a debit of a mandate, without the customer."""

    reference: str
    amount: Money
    token: str  # of the card, or the provider's code of the mandate
    customer_email: str  # with which the way was saved
    customer_name: str
    description: str


class WayCharge(msgspec.Struct, frozen=True):
    """The provider has the charge. Only a status query shows whether it was paid."""

    action_url: str | None = None  # the page on which the customer must confirm the charge


class SavedCards(Protocol):
    """Calls about saved cards. Without them, a card can only be charged on checkout."""

    async def charge(self, order: WayOrder) -> Answer[WayCharge]: ...

    async def forget(self, token: str) -> Answer[None]:
        """Deletes the token, if the provider has a call for it."""


class ReportedMandateStatus(StrEnum):
    PENDING = "pending"  # the customer or the bank must still agree
    ACTIVE = "active"
    SUSPENDED = "suspended"  # the bank accepts no debits now
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"
    NOT_FOUND = "not_found"


class MandateOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A customer's permission to debit a bank account, which the customer must still confirm."""

    reference: str
    amount: Money  # the most that all debits together can take
    customer_name: str
    customer_email: str
    customer_phone: str
    customer_address: str
    bank_code: str
    account_number: str
    description: str
    starts_at: datetime
    ends_at: datetime
    redirect_url: str


class MandateState(msgspec.Struct, frozen=True, kw_only=True):
    status: ReportedMandateStatus
    code: str | None = None  # the provider's code, which debits need
    action_url: str | None = None  # the page on which the customer confirms the mandate
    instructions: str = ""  # how the customer confirms it without that page


class Mandates(Protocol):
    """Calls about mandates (direct debit)."""

    async def create(self, order: MandateOrder) -> Answer[MandateState]: ...

    async def state(self, reference: str) -> Answer[MandateState]: ...

    async def debit(self, order: WayOrder) -> Answer[WayCharge]: ...

    async def debit_state(self, reference: str) -> Answer[ChargeState]: ...

    async def cancel(self, code: str) -> Answer[None]: ...


Webhook = WebhookEvent | Forged | Unreadable
Headers = Mapping[bytes, Sequence[bytes]]


class Adapter(Protocol):
    """Calls one provider with the credentials of one account."""

    provider: str  # the account's name
    disputes: DisputeDesk | None  # None if disputes are answered manually at the provider
    accounts: AccountDesk | None  # None if the API has no permanent accounts
    cards: SavedCards | None  # None if the provider's API cannot charge a card again
    mandates: Mandates | None  # None if the provider's API has no mandates

    async def create_checkout(self, order: ChargeOrder) -> Answer[HostedCheckout]: ...

    async def create_virtual_account(
        self, order: ChargeOrder, bvn: str | None
    ) -> Answer[VirtualAccount]: ...

    async def charge_state(self, reference: str) -> Answer[ChargeState]: ...

    async def refund(self, order: RefundOrder) -> Answer[RefundState]: ...

    async def refund_state(
        self, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[RefundState]: ...

    async def banks(self) -> Answer[list[Bank]]: ...

    async def resolve(self, bank_code: str, account_number: str) -> Answer[ResolvedAccount]: ...

    async def balance(self, currency: str) -> Answer[Money]: ...

    async def statement(
        self, since: datetime, until: datetime, currency: str, start: str | None = None
    ) -> Answer[StatementPage]:
        """Returns a page of the lines from `since` until `until`, in the provider's order.

        `start` is the `next` value of the previous page. Pages may overlap, and may have lines from
        outside the period. `statements.read` returns each line of the period once.
        """

    def transfer_reference(self, trx_id: str) -> str:
        """Returns our reference in the format that the provider accepts."""

    async def send(self, order: TransferOrder) -> Answer[Sent]: ...

    async def transfer_state(self, reference: str) -> Answer[TransferState]: ...

    def read_webhook(self, headers: Headers, raw: bytes) -> Webhook: ...


def after_unknown(answer: AnyAnswer) -> AnyAnswer | Unknown:
    """Converts the response to a transfer that was already sent once with an unknown outcome.

    A rejection of the first request is conclusive. A rejection of a repeated request may mean that
    the reference was used before, while the first transfer is still in progress. In that case only
    a status query can decide.
    """
    if isinstance(answer, Refused):
        return Unknown(f"rejected when sent again: {answer.guidance}")
    return answer
