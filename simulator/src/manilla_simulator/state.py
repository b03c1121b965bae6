"""The state of a provider in memory: charges, transfers, refunds and the provider's wallet."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from manilla.kit.money import Money

CURRENCY = "NGN"
OPENING_BALANCE = Money(CURRENCY, 10_000_000_00)
NOTHING = Money(CURRENCY, 0)


class ChargeStatus(StrEnum):
    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"
    # Some providers have no status for expired charges and still report `pending`.
    EXPIRED = "expired"


class TransferStatus(StrEnum):
    AWAITING_APPROVAL = "awaiting_approval"  # A person must enter a code or approve the transfer.
    PROCESSING = "processing"
    SUCCESS = "success"
    FAILED = "failed"
    REVERSED = "reversed"  # The transfer was delivered, and the bank returned the money later.


class RefundStatus(StrEnum):
    PROCESSING = "processing"
    SUCCESS = "success"
    FAILED = "failed"


class DisputeStatus(StrEnum):
    OPEN = "open"  # The merchant must answer.
    CONTESTED = "contested"  # The merchant has answered, and the bank decides.
    WON = "won"
    LOST = "lost"
    ACCEPTED = "accepted"  # The merchant has accepted the dispute, at least in part.


# The status changes that providers make by themselves. The control API can force other changes.
CHARGE_NEXT: dict[ChargeStatus, frozenset[ChargeStatus]] = {
    ChargeStatus.PENDING: frozenset(
        (ChargeStatus.SUCCESS, ChargeStatus.FAILED, ChargeStatus.EXPIRED)
    ),
    ChargeStatus.EXPIRED: frozenset((ChargeStatus.SUCCESS,)),  # the customer pays late
    ChargeStatus.SUCCESS: frozenset(),
    ChargeStatus.FAILED: frozenset(),
}
TRANSFER_NEXT: dict[TransferStatus, frozenset[TransferStatus]] = {
    TransferStatus.AWAITING_APPROVAL: frozenset(
        (
            TransferStatus.AWAITING_APPROVAL,
            TransferStatus.PROCESSING,
            TransferStatus.SUCCESS,
            TransferStatus.FAILED,
        )
    ),
    TransferStatus.PROCESSING: frozenset(
        (TransferStatus.PROCESSING, TransferStatus.SUCCESS, TransferStatus.FAILED)
    ),
    TransferStatus.SUCCESS: frozenset((TransferStatus.REVERSED,)),
    TransferStatus.FAILED: frozenset(),
    TransferStatus.REVERSED: frozenset(),
}
REFUND_NEXT: dict[RefundStatus, frozenset[RefundStatus]] = {
    RefundStatus.PROCESSING: frozenset((RefundStatus.SUCCESS, RefundStatus.FAILED)),
    RefundStatus.SUCCESS: frozenset(),
    RefundStatus.FAILED: frozenset(),
}

DISPUTE_NEXT: dict[DisputeStatus, frozenset[DisputeStatus]] = {
    DisputeStatus.OPEN: frozenset(DisputeStatus) - {DisputeStatus.OPEN},
    DisputeStatus.CONTESTED: frozenset((DisputeStatus.WON, DisputeStatus.LOST, DisputeStatus.OPEN)),
    # The customer's bank opens another stage.
    DisputeStatus.WON: frozenset((DisputeStatus.OPEN,)),
    DisputeStatus.LOST: frozenset((DisputeStatus.OPEN,)),
    DisputeStatus.ACCEPTED: frozenset(),
}


class VirtualAccount(msgspec.Struct, frozen=True):
    account_number: str
    account_name: str
    bank_code: str
    bank_name: str


class AccountStatus(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class PermanentAccount(msgspec.Struct, kw_only=True, eq=False):
    """An account of one of the platform's customers, for any number of transfers."""

    reference: str  # the platform's, or what else identifies the account
    number: int
    account_number: str
    account_name: str
    bank_code: str
    bank_name: str
    email: str
    holder: str  # the provider's id of the customer
    status: AccountStatus
    created_at: datetime
    timer: asyncio.TimerHandle | None = None


class TransferPayer(msgspec.Struct, frozen=True):
    name: str = "Chidi Eze"
    bank: str = "Access Bank"
    account_number: str = "0123456789"
    session_id: str = ""


class Card(msgspec.Struct, kw_only=True):
    """A saved card. Its reference is the token."""

    reference: str
    email: str
    brand: str
    last4: str
    exp_month: int
    exp_year: int
    outcome: str = "success"  # what happens to charges of the card
    reusable: bool = True
    is_deleted: bool = False


class MandateStatus(StrEnum):
    PENDING = "pending"  # the customer must approve
    ACTIVE = "active"
    SUSPENDED = "suspended"
    FAILED = "failed"
    CANCELED = "canceled"
    EXPIRED = "expired"


class Mandate(msgspec.Struct, kw_only=True):
    """A customer's permission to debit a bank account (direct debit)."""

    reference: str
    number: int
    code: str  # the provider's code
    token: str  # makes the URL of the customer's page unguessable
    amount: Money  # the most that all debits together can take
    customer_name: str
    customer_email: str
    customer_phone: str
    customer_address: str
    account_number: str
    bank_code: str
    description: str
    starts_at: str
    ends_at: str
    created_at: datetime
    redirect_url: str | None = None
    status: MandateStatus = MandateStatus.PENDING


class Charge(msgspec.Struct, kw_only=True):
    reference: str
    number: int  # the provider's own id
    token: str  # a random token that makes the checkout page's URL unguessable
    amount: Money
    title: str
    customer_name: str
    customer_email: str
    created_at: datetime
    expires_at: datetime
    redirect_url: str | None = None
    notification_url: str | None = None
    is_hosted: bool = True  # has a hosted page
    was_opened: bool = False  # True if the customer has opened the hosted page
    accounts: tuple[VirtualAccount, ...] = ()
    # the provider's fee, if the customer pays it in addition to the amount
    surcharge: Money = NOTHING
    status: ChargeStatus = ChargeStatus.PENDING
    # The provider's own status, needed if several of its statuses correspond to one `status`.
    provider_status: str = ""
    amount_paid: Money = NOTHING
    fee: Money = NOTHING
    refunded: Money = NOTHING
    disputed: Money = NOTHING  # what disputes have taken back
    reason: str = ""
    paid_at: datetime | None = None
    timer: asyncio.TimerHandle | None = None
    # Only for a transfer into a permanent account.
    permanent: PermanentAccount | None = None
    payer: TransferPayer = TransferPayer()
    card: Card | None = None  # the card that paid it, or that was charged again
    mandate: Mandate | None = None  # the mandate that was debited

    @property
    def expected(self) -> Money:
        """The amount that the customer must pay."""
        return self.amount + self.surcharge

    @property
    def credited(self) -> Money:
        """The amount that this charge adds to the provider's wallet."""
        paid = self.status is ChargeStatus.SUCCESS
        return self.amount_paid - self.fee if paid else NOTHING


class Recipient(msgspec.Struct, frozen=True, kw_only=True):
    """A transfer recipient that the platform created at the provider before the transfer."""

    reference: str  # the provider's code for the recipient
    number: int
    name: str
    bank_code: str
    bank_name: str
    account_number: str
    account_name: str
    created_at: datetime


class Transfer(msgspec.Struct, kw_only=True):
    reference: str
    number: int
    trace_id: str
    session_id: str  # the transfer's session id in the interbank system (NIP)
    amount: Money
    fee: Money
    bank_code: str
    bank_name: str
    account_number: str
    account_name: str
    narration: str
    created_at: datetime
    callback_url: str | None = None
    recipient: Recipient | None = None
    status: TransferStatus = TransferStatus.PROCESSING
    provider_status: str = ""
    reason: str = ""
    was_delivered: bool = False
    settled_at: datetime | None = None
    duplicates: int = 0  # the number of rejected requests to send this transfer again
    timer: asyncio.TimerHandle | None = None

    @property
    def total(self) -> Money:
        return self.amount + self.fee

    @property
    def debited(self) -> Money:
        """The amount that the transfer deducts from the wallet.

        Failed and reversed transfers deduct nothing, not even a fee.
        """
        kept = self.is_open or self.status is TransferStatus.SUCCESS
        return self.total if kept else NOTHING

    @property
    def held(self) -> Money:
        return self.total if self.is_open else NOTHING

    @property
    def is_open(self) -> bool:
        return self.status in (TransferStatus.AWAITING_APPROVAL, TransferStatus.PROCESSING)


class Refund(msgspec.Struct, kw_only=True):
    reference: str
    number: int
    trace_id: str
    charge: Charge
    amount: Money
    created_at: datetime
    notification_url: str | None = None
    note: str = ""
    status: RefundStatus = RefundStatus.PROCESSING
    provider_status: str = ""
    reason: str = ""
    settled_at: datetime | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def debited(self) -> Money:
        return NOTHING if self.status is RefundStatus.FAILED else self.amount


class EvidenceFile(msgspec.Struct, frozen=True):
    """A file that was uploaded as evidence, without its content."""

    reference: str  # the provider's name of the file
    name: str
    media_type: str
    size: int
    sha256: str


class Dispute(msgspec.Struct, kw_only=True):
    """A customer's bank takes a payment back."""

    reference: str
    number: int
    charge: Charge
    amount: Money
    category: str
    reason: str
    stage: str
    created_at: datetime
    due_at: datetime
    is_held: bool  # True if the provider debits the amount when the dispute opens
    status: DisputeStatus = DisputeStatus.OPEN
    provider_status: str = ""
    is_missed: bool = False  # True if nobody answered in time
    accepted: Money = NOTHING  # the part that the merchant accepts
    message: str = ""  # the merchant's answer
    files: list[EvidenceFile] = []
    evidence: dict[str, str] = {}  # structured evidence
    evidence_number: int | None = None
    history: list[tuple[str, datetime]] = []  # statuses or actions in the provider's terms
    updated_at: datetime
    decided_at: datetime | None = None
    timer: asyncio.TimerHandle | None = None

    @property
    def debited(self) -> Money:
        """The amount that the dispute deducts from the wallet."""
        match self.status:
            case DisputeStatus.LOST:
                return self.amount
            case DisputeStatus.ACCEPTED:
                return self.accepted
            case DisputeStatus.WON:
                return NOTHING
        return self.amount if self.is_held else NOTHING

    @property
    def taken(self) -> Money:
        """The amount that the customer has received for good."""
        is_ended = self.status in (DisputeStatus.LOST, DisputeStatus.ACCEPTED)
        return self.debited if is_ended else NOTHING


class Movement(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the provider's account statement."""

    number: int
    at: datetime
    # The kind is `charge`, `transfer`, `refund` or `dispute`, or empty if the balance was set
    # manually.
    kind: str
    reference: str
    item_number: int
    difference: Money
    balance: Money


class Wallet(msgspec.Struct):
    available: Money = OPENING_BALANCE
    held: Money = NOTHING  # the total amount of open transfers

    @property
    def ledger(self) -> Money:
        return self.available + self.held


class HasReference(Protocol):
    @property
    def reference(self) -> str: ...


Kept = TypeVar("Kept", bound=HasReference)


class Shelf(Generic[Kept]):
    """Stores objects by reference. When the limit is exceeded, the oldest object is deleted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, item: Kept) -> Kept | None:
        """Stores an object. Returns the object that was deleted to make room, or None."""
        self._kept[item.reference] = item
        if len(self._kept) <= self._most:
            return None
        return self._kept.pop(next(iter(self._kept)))

    def get(self, reference: str) -> Kept | None:
        return self._kept.get(reference)

    def select(self, reference: str | None = None) -> Iterator[Kept]:
        """Yields the object with this reference, or all objects, newest first."""
        if reference is None:
            return reversed(self._kept.values())
        return iter([self._kept[reference]] if reference in self._kept else [])

    def clear(self) -> None:
        self._kept.clear()


class ChargeShelf(Shelf[Charge]):
    """Stores charges, and finds them by reference, page token, account number or provider id."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.by_token: dict[str, Charge] = {}
        self.by_account: dict[str, Charge] = {}
        self.by_number: dict[int, Charge] = {}

    def put(self, item: Charge) -> Charge | None:
        self.by_token[item.token] = item
        self.by_number[item.number] = item
        for account in () if item.permanent else item.accounts:
            self.by_account[account.account_number] = item
        dropped = super().put(item)
        if dropped is not None:
            del self.by_token[dropped.token], self.by_number[dropped.number]
            for account in () if dropped.permanent else dropped.accounts:
                del self.by_account[account.account_number]
        return dropped

    def clear(self) -> None:
        super().clear()
        for index in (self.by_token, self.by_account, self.by_number):
            index.clear()


def now() -> datetime:
    return datetime.now(UTC)
