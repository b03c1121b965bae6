"""How one payment is divided, and the share that each receiver has of it."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.splits.rule import PROPORTIONAL, Hold
from manilla.withheld.withheld import Holding


class ShareStatus(StrEnum):
    HELD = "held"
    COMPLETED = "completed"
    SHORT = "short"  # the receiver owes a part of what refunds and disputes took back
    RETURNED = "returned"  # refunds and disputes took all of it back


class ShareEvent(StrEnum):
    HELD = "held"
    RELEASED = "released"  # the share is in the receiver's wallet
    RETURNED = "returned"
    SHORT = "short"


class PlannedShare(msgspec.Struct, frozen=True):
    receiver: str
    merchant_id: int
    trx_id: str
    minor: int


class Division(msgspec.Struct, frozen=True, kw_only=True):
    """How a payment is divided. It is stored with the payment and never changes."""

    id: str | None  # of the rule; None if the request contained the rule
    version: int | None
    owner_minor: int
    rest: str
    refunds: str
    disputes: str
    hold: Hold
    shares: Sequence[PlannedShare]

    def returned_minor(self, receiver: str, payment: "DividedPayment") -> int:
        """Returns how much of a receiver's share the payment's refunds and disputes take back."""
        share = next(each for each in self.shares if each.receiver == receiver)
        amount, refunded = payment.amount_minor, min(payment.amount_minor, payment.refunded_minor)
        taken = min(amount, refunded + payment.disputed_minor)
        disputed = self._part(self.disputes, share, taken, amount)
        disputed -= self._part(self.disputes, share, refunded, amount)
        wanted = self._part(self.refunds, share, refunded, amount) + disputed
        return max(0, min(share.minor, wanted))

    def _part(self, bearer: str, share: PlannedShare, minor: int, amount: int) -> int:
        """Returns what a receiver bears of the first `minor` that leave the payment again.

        The parts of successive refunds add up to the part of their sum.
        """
        if bearer != PROPORTIONAL:
            return min(share.minor, minor) if bearer == share.receiver else 0
        if share.receiver != self.rest:
            return share.minor * minor // amount
        others = [each.minor for each in self.shares if each.receiver != self.rest]
        return (sum(others) + share.minor) * minor // amount - sum(
            each * minor // amount for each in others
        )


def shared_minor(split: str | None) -> int:
    """Returns what other receivers get of a payment that is divided so."""
    if split is None:
        return 0
    return sum(each.minor for each in msgspec.json.decode(split, type=Division).shares)


class DividedPayment(msgspec.Struct, frozen=True):
    """The columns of a payment that its shares depend on."""

    merchant_id: int
    trx_id: str
    environment: Environment
    currency: str
    status: str
    amount_minor: int
    refunded_minor: int
    disputed_minor: int
    split: str | None
    traceparent: str | None

    @property
    def division(self) -> Division:
        assert self.split is not None
        return msgspec.json.decode(self.split, type=Division)


class Share(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int  # the receiver
    trx_id: str
    owner_id: int
    payment_trx_id: str
    environment: Environment
    ref_trx: str
    currency: str
    amount_minor: int
    status: ShareStatus
    withheld_minor: int = 0
    returned_minor: int = 0
    # What of the returned amount the receiver owes. The owner's claim is withheld until it is paid.
    short_minor: int = 0
    hold_until: datetime | None = None  # None: until the owner releases the share
    released_at: datetime | None = None  # None: the share is held
    created_at: datetime
    updated_at: datetime
    traceparent: str | None = None

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def withheld(self) -> Money:
        return Money(self.currency, self.withheld_minor)

    @property
    def returned(self) -> Money:
        return Money(self.currency, self.returned_minor)

    @property
    def short(self) -> Money:
        return Money(self.currency, self.short_minor)

    @property
    def holding(self) -> Holding:
        """What the receiver's postings withhold and take: a share is what they take from others."""
        return Holding(self.withheld_minor, self.returned_minor - self.amount_minor)

    def changed(self, **columns: int | datetime) -> "Share":
        after = msgspec.structs.replace(self, **columns)
        return msgspec.structs.replace(after, status=_status_of(after))

    def after_return(self, wanted_minor: int) -> "Share":
        """Returns the share of which `wanted_minor` are taken back. Held money is taken first.

        A debt ends with what the receiver gets again. Only `movements` adds to a debt.
        """
        kept = self.amount_minor - wanted_minor
        again = max(0, self.returned_minor - wanted_minor)
        withheld = 0 if self.released_at else kept
        short = self.short_minor - min(self.short_minor, again)
        return self.changed(returned_minor=wanted_minor, withheld_minor=withheld, short_minor=short)


def _status_of(share: Share) -> ShareStatus:
    if share.withheld_minor:
        return ShareStatus.HELD
    if share.short_minor:
        return ShareStatus.SHORT
    is_returned = share.returned_minor == share.amount_minor
    return ShareStatus.RETURNED if is_returned else ShareStatus.COMPLETED
