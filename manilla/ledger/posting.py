"""Ledger postings, their results, and the call that posts them."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.posting_kinds import PostingFlag, PostingKind, kind_of, kinds_with, stored_kind

LINES_MAX = 2  # the maximum number of lines that the SQL function `ledger_post` accepts


_WALLET_KINDS = frozenset(kinds_with(PostingFlag.WALLET))


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
    kind: PostingKind
    environment: Environment
    wallet: Money
    lines: tuple[Line, ...]
    reason: str | None = None
    # The rail in a case about a payout's earlier rail. `2`, `3` and so on if money was posted to or
    # from suspense several times. Otherwise empty.
    part: str = ""

    @property
    def stored_kind(self) -> str:
        return stored_kind(self.kind, self.part)

    def __post_init__(self) -> None:
        assert 1 <= len(self.lines) <= LINES_MAX
        assert not self.wallet.minor or self.kind in _WALLET_KINDS, "must not change a wallet"
        assert self.wallet.minor + sum(line.minor for line in self.lines) == 0, "must sum to zero"


class Posted(msgspec.Struct, frozen=True):
    outcome: PostingOutcome
    # The wallet's balance after the posting, or None if the posting did not change the wallet.
    balance_minor: int | None


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


async def with_number(connection: Connection, posting: Posting) -> Posting:
    """Returns the posting with the next number of its transaction's postings of this kind.

    The first posting has no number. The caller must hold a lock on the transaction.
    """
    number: int = await connection.value(
        f"""
        SELECT count(*) + 1 FROM posting
         WHERE merchant_id = $1 AND trx_id = $2 AND {kind_of("kind")} = $3""",
        *(posting.merchant_id, posting.trx_id, posting.kind),
    )
    return posting if number == 1 else msgspec.structs.replace(posting, part=str(number))


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
        [posting.stored_kind for posting in postings],
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
