"""Ledger postings, their results, and the call that posts them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money

LINES_MAX = 2  # the maximum number of lines that the SQL function `ledger_post` accepts


class PostingKind(StrEnum):
    """The kind of a posting. A transaction has at most one posting of each kind and suffix."""

    PAYMENT = "payment"
    COMMISSION = "commission"
    REFUND = "refund"
    REFUND_PAID = "refund_paid"
    REFUND_RETURNED = "refund_returned"
    PAYOUT = "payout"
    PAYOUT_DELIVERED = "payout_delivered"
    PAYOUT_REFUND = "payout_refund"
    PAYOUT_PROVIDER_FEE = "payout_provider_fee"
    PAYOUT_PROVIDER_FEE_RETURNED = "payout_provider_fee_returned"
    PROVIDER_FEE = "provider_fee"  # a fee that a provider kept from a payment
    SURPLUS = "surplus"
    PART = "part"
    PART_USED = "part_used"
    SUSPENSE = "suspense"
    SUSPENSE_RELEASED = "suspense_released"
    FUNDING = "funding"
    ADJUSTMENT = "adjustment"
    CASE_DEBIT = "case_debit"
    CASE_REVERSE = "case_reverse"
    CASE_WRITE_OFF = "case_write_off"
    CASE_PROVIDER_FEE = "case_provider_fee"
    SETTLE_TOP_UP = "settle_top_up"
    SETTLE_SETTLEMENT = "settle_settlement"
    SETTLE_FEE = "settle_fee"
    SETTLE_FEE_RETURNED = "settle_fee_returned"
    CARRIED_FORWARD = "carried_forward"  # the sum of archived postings


class PostingSource(StrEnum):
    """The record that a posting belongs to. The posting's `trx_id` is the record's reference."""

    PAYMENT = "payment"
    COMMISSION = "commission"  # the id of a payment's commission
    CHARGE = "charge"
    PAYOUT = "payout"
    REFUND = "refund"
    CASE = "case"  # the reference of the case: of a payout, charge or refund
    ADMINISTRATOR = "administrator"
    ARCHIVE = "archive"


SOURCES: Mapping[str, PostingSource] = {
    PostingKind.PAYMENT: PostingSource.PAYMENT,
    PostingKind.COMMISSION: PostingSource.COMMISSION,
    PostingKind.REFUND: PostingSource.REFUND,
    PostingKind.REFUND_PAID: PostingSource.REFUND,
    PostingKind.REFUND_RETURNED: PostingSource.REFUND,
    PostingKind.PAYOUT: PostingSource.PAYOUT,
    PostingKind.PAYOUT_DELIVERED: PostingSource.PAYOUT,
    PostingKind.PAYOUT_REFUND: PostingSource.PAYOUT,
    PostingKind.PAYOUT_PROVIDER_FEE: PostingSource.PAYOUT,
    PostingKind.PAYOUT_PROVIDER_FEE_RETURNED: PostingSource.PAYOUT,
    PostingKind.PROVIDER_FEE: PostingSource.CHARGE,
    PostingKind.SURPLUS: PostingSource.CHARGE,
    PostingKind.PART: PostingSource.CHARGE,
    PostingKind.PART_USED: PostingSource.CHARGE,
    PostingKind.SUSPENSE: PostingSource.CHARGE,
    PostingKind.SUSPENSE_RELEASED: PostingSource.CHARGE,
    PostingKind.FUNDING: PostingSource.ADMINISTRATOR,
    PostingKind.ADJUSTMENT: PostingSource.ADMINISTRATOR,
    PostingKind.CASE_DEBIT: PostingSource.CASE,
    PostingKind.CASE_REVERSE: PostingSource.CASE,
    PostingKind.CASE_WRITE_OFF: PostingSource.CASE,
    PostingKind.CASE_PROVIDER_FEE: PostingSource.CASE,
    PostingKind.SETTLE_TOP_UP: PostingSource.ADMINISTRATOR,
    PostingKind.SETTLE_SETTLEMENT: PostingSource.ADMINISTRATOR,
    PostingKind.SETTLE_FEE: PostingSource.ADMINISTRATOR,
    PostingKind.SETTLE_FEE_RETURNED: PostingSource.ADMINISTRATOR,
    PostingKind.CARRIED_FORWARD: PostingSource.ARCHIVE,
}


# The kinds of postings that change a wallet's balance.
WALLET_KINDS = (
    PostingKind.PAYMENT,
    PostingKind.COMMISSION,
    PostingKind.PAYOUT,
    PostingKind.PAYOUT_REFUND,
    PostingKind.REFUND,
    PostingKind.REFUND_RETURNED,
    PostingKind.SUSPENSE_RELEASED,
    PostingKind.FUNDING,
    PostingKind.ADJUSTMENT,
    PostingKind.CASE_DEBIT,
    PostingKind.CASE_REVERSE,
)


class PostingOutcome(StrEnum):
    POSTED = "posted"
    DUPLICATE = "duplicate"  # a posting with this trx_id and kind exists, so nothing is posted
    INSUFFICIENT_BALANCE = "insufficient_balance"
    NO_WALLET = "no_wallet"
    BALANCE_LIMIT = "balance_limit"


class Line(msgspec.Struct, frozen=True):
    """The change to a platform account's balance. A decrease is negative."""

    account: str
    minor: int


def nonzero(*lines: Line) -> tuple[Line, ...]:
    """Removes lines whose amount is zero, such as a commission of zero."""
    return tuple(line for line in lines if line.minor)


class Posting(msgspec.Struct, frozen=True):
    """A money movement: a change to a wallet, balanced by one or two platform accounts."""

    merchant_id: int
    trx_id: str
    # A PostingKind. It has the suffix `:rail` in a case about a payout's earlier rail, and `:2`,
    # `:3` and so on if money was posted to or from suspense several times.
    kind: str
    environment: Environment
    wallet: Money
    lines: tuple[Line, ...]
    reason: str | None = None

    def __post_init__(self) -> None:
        assert 1 <= len(self.lines) <= LINES_MAX
        assert self.wallet.minor + sum(line.minor for line in self.lines) == 0, "must sum to zero"


class Posted(msgspec.Struct, frozen=True):
    outcome: PostingOutcome
    # The wallet's balance after the posting, or None if the posting did not change the wallet.
    balance_minor: int | None


def kind_without_suffix(column: str) -> str:
    """Returns the SQL that selects a stored kind as a PostingKind."""
    return f"split_part({column}, ':', 1)"


def clearing(provider: str) -> str:
    """Returns the clearing account for money that a provider holds for us."""
    return f"clearing:{provider}"


def provider_fee(provider: str) -> str:
    """Returns the account for fees that a provider has kept."""
    return f"provider_fee:{provider}"


COMMISSION = "commission"
PAYOUT_FEE = "payout_fee"
IN_FLIGHT = "in_flight"
SUSPENSE = "suspense"
ADJUSTMENT = "adjustment"
# Money from customers that is not credited to a wallet, such as a surplus or a partial payment.
CUSTOMER_CREDIT = "customer_credit"
BANK = "bank"


async def next_kind(
    connection: Connection, merchant_id: int, trx_id: str, kind: PostingKind
) -> str:
    """Returns the kind for a transaction's next posting of this kind: `kind`, `kind:2` and so on.

    The caller must hold a lock on the transaction.
    """
    number: int = await connection.value(
        f"""
        SELECT count(*) + 1 FROM posting
         WHERE merchant_id = $1 AND trx_id = $2 AND {kind_without_suffix("kind")} = $3""",
        *(merchant_id, trx_id, kind),
    )
    return kind if number == 1 else f"{kind}:{number}"


class _PostedRow(msgspec.Struct, frozen=True):
    item: int
    outcome: str
    balance_minor: int | None


POST = """
    SELECT item, outcome, balance_minor
      FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"""


async def post(db: Database | Connection, postings: Sequence[Posting]) -> list[Posted]:
    """Posts all postings in one SQL statement, and returns their results in the same order."""
    rows = await db.rows(
        _PostedRow,
        POST,
        list(range(len(postings))),
        [posting.merchant_id for posting in postings],
        [posting.trx_id for posting in postings],
        [posting.kind for posting in postings],
        [posting.environment.value for posting in postings],
        [posting.wallet.currency for posting in postings],
        [posting.reason for posting in postings],
        [posting.wallet.minor for posting in postings],
        *_line_columns(postings),
    )
    rows.sort(key=lambda row: row.item)
    assert len(rows) == len(postings)
    return [Posted(PostingOutcome(row.outcome), row.balance_minor) for row in rows]


def _line_columns(postings: Sequence[Posting]) -> list[list[str | int | None]]:
    """Returns the accounts and amounts of all postings' first lines, then of their second lines."""
    columns: list[list[str | int | None]] = []
    for number in range(LINES_MAX):
        lines = [posting.lines[number : number + 1] for posting in postings]
        columns.append([line[0].account if line else None for line in lines])
        columns.append([line[0].minor if line else None for line in lines])
    return columns
