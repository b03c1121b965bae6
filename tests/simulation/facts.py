"""What the simulation knows and sees: operations, providers' records, and observations.

All amounts are in minor units.
"""

from dataclasses import dataclass, field
from enum import Enum, StrEnum

from tests.simulation.disputed import Claim, DisputeRecord
from tests.simulation.divided import ShareRecord, Split
from tests.simulation.prices import Price


class Moved(Enum):
    """Whether an amount has moved, as far as the model knows."""

    NO = "no"
    MAYBE = "maybe"
    YES = "yes"


class Kind(StrEnum):
    FUNDING = "funding"
    PAYMENT = "payment"
    PAYOUT = "payout"
    REFUND = "refund"
    DISPUTE = "dispute"
    SHARE = "share"


class Decision(StrEnum):
    """An administrator's decision about a manual payout or a manual refund."""

    NONE = ""
    PAID = "paid"
    REJECTED = "rejected"


@dataclass(slots=True, eq=False)
class Operation:
    """One operation that moves money: first a debit from the wallet, later a credit to the wallet.

    A payment only credits. A payout or refund debits, and credits the same amount if it fails.
    """

    merchant: int
    kind: Kind
    reference: str  # the merchant's own reference
    debit: int = 0
    credit: int = 0
    debited: Moved = Moved.NO
    credited: Moved = Moved.NO
    trx_id: str = ""  # empty until a response reports that the operation was accepted
    amount: int = 0  # the amount that the provider must receive, without fees
    status: str = "pending"  # the status in the newest response
    decision: Decision = Decision.NONE
    is_manual: bool = False  # True if an administrator pays it, not a provider
    is_reversed: bool = False  # True if the provider returns the delivered transfer
    has_notice: bool = True  # False if only the list of events reports the operation
    payment: "Operation | None" = None  # the payment that a refund returns
    rail: str = ""  # where the customer has paid
    method: str = ""  # the method of a payout
    price: Price | None = None  # as it was when the operation was created
    payer: str = ""  # who sent a transfer into a customer's account
    is_again: bool = False  # True if the merchant charges a saved card
    split: Split | None = None  # how a payment is divided
    # False if the provider cannot be asked about an unknown outcome, so it may stay pending.
    can_be_queried: bool = True


@dataclass(frozen=True, slots=True)
class ProviderObject:
    """A transfer, charge or refund in a provider's own records."""

    rail: str
    reference: str
    amount: int
    status: str
    duplicates: int = 0  # how often the provider rejected the same reference again


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification or event. Repeated deliveries have the same id."""

    id: str
    merchant: int
    trx_id: str
    message: str
    status: str = ""


@dataclass(slots=True)
class Observation:
    """Everything that can be seen from outside at a quiet moment."""

    available: dict[int, int] = field(default_factory=dict)  # balance by merchant
    in_flight: dict[int, int] = field(default_factory=dict)  # open payouts by merchant
    withheld: dict[int, int] = field(default_factory=dict)  # what open disputes hold
    short: dict[int, int] = field(default_factory=dict)  # what each merchant owes
    claims: list[Claim] = field(default_factory=list)
    disputes: list[DisputeRecord] = field(default_factory=list)
    shares: list[ShareRecord] = field(default_factory=list)
    statuses: dict[str, str] = field(default_factory=dict)  # API status by trx_id
    transfers: list[ProviderObject] = field(default_factory=list)
    charges: list[ProviderObject] = field(default_factory=list)
    refunds: list[ProviderObject] = field(default_factory=list)
    # The transfers into customers' accounts. Their references are the payers.
    received: list[ProviderObject] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)  # what the merchants' `ipn_url` got
    deliveries: list[Notice] = field(default_factory=list)  # what their webhook endpoints got
    events: list[Notice] = field(default_factory=list)  # what the list of events contains
    cases: set[str] = field(default_factory=set)  # trx_ids with an open case
    broken: list[str] = field(default_factory=list)  # violated ledger invariants
