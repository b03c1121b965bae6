"""The kinds of ledger postings: one row per kind, from which all other lists of kinds are derived.

A posting stores its kind as `kind`, or as `kind:part` if its transaction has several postings of
the kind.
"""

from collections.abc import Iterable
from enum import IntFlag, StrEnum, auto
from typing import Literal, Self


class PostingSource(StrEnum):
    """The record that a posting belongs to. The posting's `trx_id` is the record's reference."""

    PAYMENT = "payment"
    COMMISSION = "commission"  # the id of a payment's commission
    CHARGE = "charge"
    PAYOUT = "payout"
    REFUND = "refund"
    DISPUTE = "dispute"
    SPLIT = "split"  # a receiver's share of a payment
    CREDIT = "credit"  # the record of the credit that paid a debt
    CASE = "case"  # the reference of the case: of a payout, charge or refund
    ADMINISTRATOR = "administrator"
    ARCHIVE = "archive"


class PostingFlag(IntFlag):
    """What is true of all postings of a kind."""

    WALLET = auto()  # the posting may change a wallet's balance
    UNLIMITED = auto()  # it returns money to a wallet, which may then exceed its maximum balance
    PUBLIC_REASON = auto()  # merchants see its reason; other reasons are administrators' notes
    FEE = auto()  # it debits the fee of its payment or payout
    FEE_RETURNED = auto()  # it credits the fee of its payout
    LOSS = auto()  # it decides who bears the loss after a provider has contradicted itself


NO_FLAG = PostingFlag(0)
WALLET, UNLIMITED = PostingFlag.WALLET, PostingFlag.UNLIMITED
PUBLIC_REASON = PostingFlag.PUBLIC_REASON
FEE, FEE_RETURNED = PostingFlag.FEE, PostingFlag.FEE_RETURNED
LOSS = PostingFlag.LOSS

# The line of a provider's statement that shows the posting's change of a clearing account. A
# `LineKind` has each of these values.
StatementLineKind = Literal["charge", "transfer", "refund", "dispute", "fee", "settlement", "other"]


class PostingKind(StrEnum):
    """The kind of a posting. A transaction has at most one posting of each kind and part.

    The columns: the stored name, the record that the posting belongs to, the heading in timelines,
    the line of a provider's statement (None: no posting of the kind changes a clearing account),
    the flags, and the audit action of an administrator's posting.
    """

    source: PostingSource
    heading: str
    statement_line: StatementLineKind | None
    flags: PostingFlag
    audit_action: str | None

    def __new__(
        cls,
        value: str,
        source: PostingSource,
        heading: str,
        statement_line: StatementLineKind | None = None,
        flags: PostingFlag = NO_FLAG,
        audit_action: str | None = None,
    ) -> Self:
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.source = source
        kind.heading = heading
        kind.statement_line = statement_line
        kind.flags = flags
        kind.audit_action = audit_action
        return kind

    # The list of a wallet's entries offers its kinds as filters in this order.
    PAYMENT = ("payment", PostingSource.PAYMENT, "Payment credited to the wallet", "charge", WALLET)
    COMMISSION = (
        "commission",
        PostingSource.COMMISSION,
        "Commission recorded",
        "charge",
        WALLET | FEE,
    )
    PAYOUT = ("payout", PostingSource.PAYOUT, "Wallet debited", None, WALLET | FEE)
    PAYOUT_DELIVERED = (
        "payout_delivered",
        PostingSource.PAYOUT,
        "Money sent to the bank",
        "transfer",
    )
    PAYOUT_REFUND = (
        "payout_refund",
        PostingSource.PAYOUT,
        "Money returned to the wallet",
        "transfer",
        WALLET | UNLIMITED | FEE_RETURNED,
    )
    PAYOUT_PROVIDER_FEE = (
        "payout_provider_fee",
        PostingSource.PAYOUT,
        "Payout provider fee",
        "transfer",
    )
    PAYOUT_PROVIDER_FEE_RETURNED = (
        "payout_provider_fee_returned",
        PostingSource.PAYOUT,
        "Payout provider fee returned",
        "transfer",
    )
    REFUND = ("refund", PostingSource.REFUND, "Refund debited", None, WALLET | PUBLIC_REASON)
    REFUND_PAID = ("refund_paid", PostingSource.REFUND, "Refund paid", "refund")
    REFUND_RETURNED = (
        "refund_returned",
        PostingSource.REFUND,
        "Refund returned",
        None,
        WALLET | UNLIMITED | PUBLIC_REASON,
    )
    # The part of a commission, and of its taxes, that a completed refund gives back.
    REFUND_COMMISSION = (
        "refund_commission",
        PostingSource.REFUND,
        "Commission of a refund returned",
        None,
        WALLET | UNLIMITED,
    )
    # Money that is withheld from a wallet, released to it, or taken from it.
    WITHHELD = (
        "withheld",
        PostingSource.DISPUTE,
        "Disputed amount withheld or released",
        "dispute",
        WALLET | UNLIMITED,
    )
    DISPUTE_FEE = (
        "dispute_fee",
        PostingSource.DISPUTE,
        "Dispute fee",
        "dispute",
        WALLET | UNLIMITED,
    )
    COMMISSION_RETURNED = (
        "commission_returned",
        PostingSource.DISPUTE,
        "Commission of a disputed payment returned",
        None,
        WALLET | UNLIMITED,
    )
    # What the owner of a payment passes on to other receivers or takes back, and each of their
    # shares.
    SPLIT = (
        "split",
        PostingSource.PAYMENT,
        "Shares of other receivers",
        None,
        WALLET | UNLIMITED | PUBLIC_REASON,
    )
    SHARE = (
        "share",
        PostingSource.SPLIT,
        "Share of a payment",
        None,
        WALLET | UNLIMITED | PUBLIC_REASON,
    )
    # The database posts it after each credit of a wallet whose merchant owes money. Its part is the
    # kind of the credit.
    SHORT_PAID = ("short_paid", PostingSource.CREDIT, "Debt paid from a credit", None, WALLET)
    # A fee that a provider kept from a payment.
    PROVIDER_FEE = ("provider_fee", PostingSource.CHARGE, "Provider fee", "charge")
    SURPLUS = ("surplus", PostingSource.CHARGE, "Surplus received", "charge")
    PART = ("part", PostingSource.CHARGE, "Partial amount received", "charge")
    PART_USED = ("part_used", PostingSource.CHARGE, "Partial amount used for the payment", "charge")
    SUSPENSE = ("suspense", PostingSource.CHARGE, "Suspense", "charge")
    SUSPENSE_RELEASED = (
        "suspense_released",
        PostingSource.CHARGE,
        "Suspense released",
        "charge",
        WALLET,
    )
    FUNDING = (
        "funding",
        PostingSource.ADMINISTRATOR,
        "Funding",
        None,
        WALLET | PUBLIC_REASON,
        "wallet.fund",
    )
    ADJUSTMENT = (
        "adjustment",
        PostingSource.ADMINISTRATOR,
        "Adjustment",
        None,
        WALLET | PUBLIC_REASON,
        "wallet.adjust",
    )
    CASE_DEBIT = ("case_debit", PostingSource.CASE, "Case debit", "other", WALLET | LOSS)
    # This version does not post this kind.
    CASE_REVERSE = ("case_reverse", PostingSource.CASE, "Case reverse", "other", WALLET)
    CASE_WRITE_OFF = ("case_write_off", PostingSource.CASE, "Case write off", "other", LOSS)
    CASE_PROVIDER_FEE = ("case_provider_fee", PostingSource.CASE, "Case provider fee", "other")
    SETTLE_TOP_UP = (
        "settle_top_up",
        PostingSource.ADMINISTRATOR,
        "Settle top up",
        "settlement",
        NO_FLAG,
        "settle.top_up",
    )
    SETTLE_SETTLEMENT = (
        "settle_settlement",
        PostingSource.ADMINISTRATOR,
        "Settle settlement",
        "settlement",
        NO_FLAG,
        "settle.settlement",
    )
    SETTLE_FEE = (
        "settle_fee",
        PostingSource.ADMINISTRATOR,
        "Settle fee",
        "fee",
        NO_FLAG,
        "settle.fee",
    )
    SETTLE_FEE_RETURNED = (
        "settle_fee_returned",
        PostingSource.ADMINISTRATOR,
        "Settle fee returned",
        "fee",
        NO_FLAG,
        "settle.fee_returned",
    )
    TAX_REMITTED = (
        "tax_remitted",
        PostingSource.ADMINISTRATOR,
        "Tax remitted",
        None,
        NO_FLAG,
        "tax.remit",
    )
    # The sum of archived postings.
    CARRIED_FORWARD = ("carried_forward", PostingSource.ARCHIVE, "Carried forward")


_BY_NAME: dict[str, PostingKind] = {kind.value: kind for kind in PostingKind}


def kind_named(name: str) -> PostingKind | None:
    """Returns the kind, or None for the kind of a newer version that runs at the same time."""
    return _BY_NAME.get(name)


def kinds_with(flag: PostingFlag) -> tuple[PostingKind, ...]:
    return tuple(kind for kind in PostingKind if flag in kind.flags)


def kinds_of(source: PostingSource) -> tuple[PostingKind, ...]:
    return tuple(kind for kind in PostingKind if kind.source is source)


def stored_kind(kind: PostingKind, part: str) -> str:
    """Returns what the column `posting.kind` contains for this kind and part."""
    return f"{kind}:{part}" if part else kind.value


def kind_of(column: str) -> str:
    """Returns the SQL expression for the kind that a stored value contains, without its part."""
    return f"split_part({column}, ':', 1)"


def part_of(column: str) -> str:
    """Returns the SQL expression for the part that a stored value contains, or an empty string."""
    return f"split_part({column}, ':', 2)"


def in_sql(kinds: Iterable[PostingKind]) -> str:
    """Returns the kinds as an SQL list, to follow IN."""
    return "(" + ", ".join(f"'{kind}'" for kind in kinds) + ")"
