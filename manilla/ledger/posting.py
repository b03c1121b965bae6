"""Ledger postings, their results, and the call that posts them."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.posting_kinds import PostingFlag, PostingKind, kind_of, kinds_with, stored_kind

LINES_MAX = 8


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
    """A money movement: a change to a wallet, balanced by changes to platform accounts."""

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
        assert all(_is_platform_account(line.account) for line in self.lines), "unknown account"
        assert not self.wallet.minor or self.kind in _WALLET_KINDS, "must not change a wallet"
        assert self.wallet.minor + sum(line.minor for line in self.lines) == 0, "must sum to zero"

    def reversed(self, kind: PostingKind, *, reason: str | None = None) -> "Posting":
        """Returns the posting that undoes this one."""
        return msgspec.structs.replace(
            self,
            kind=kind,
            wallet=Money(self.wallet.currency, -self.wallet.minor),
            lines=tuple(Line(line.account, -line.minor) for line in self.lines),
            reason=reason,
        )

    def with_account(self, before: str, after: str) -> "Posting":
        """Returns the posting with the lines of one account posted to another account."""
        lines = tuple(
            Line(after, line.minor) if line.account == before else line for line in self.lines
        )
        return msgspec.structs.replace(self, lines=lines)


class Posted(msgspec.Struct, frozen=True):
    outcome: PostingOutcome
    # The wallet's balance after the posting, or None if the posting did not change the wallet.
    balance_minor: int | None


# The accounts. The database checks only how a name is written, so a new account needs no migration.
WALLET = "wallet"
COMMISSION = "commission"
PAYOUT_FEE = "payout_fee"
IN_FLIGHT = "in_flight"
SUSPENSE = "suspense"
ADJUSTMENT = "adjustment"
# Money from customers that is not credited to a wallet, such as a surplus or a partial payment.
CUSTOMER_CREDIT = "customer_credit"
BANK = "bank"
# Money that was taken out of a wallet, and that is not decided yet, such as a disputed amount.
WITHHELD = "withheld"
# What merchants owe because a wallet could not cover a debit. Later credits pay it first.
SHORT = "short"
# What the platform earns from merchants. Fee invoices list the entries in these accounts.
INCOME = (COMMISSION, PAYOUT_FEE)
TAX = "tax:"  # the beginning of the names of tax accounts
# Money between the owner and the receivers of a payment. It is zero after each transaction.
INTERNAL = "internal"
ACCOUNTS = frozenset(
    (
        *(WALLET, COMMISSION, PAYOUT_FEE, IN_FLIGHT, SUSPENSE, ADJUSTMENT, CUSTOMER_CREDIT, BANK),
        *(WITHHELD, SHORT, INTERNAL),
    )
)
# Accounts with a name after the prefix, such as a provider's.
PREFIXES = ("clearing:", "provider_fee:", "tax:")


def clearing(provider: str) -> str:
    """Returns the clearing account for money that a provider holds for us."""
    return f"clearing:{provider}"


def provider_fee(provider: str) -> str:
    """Returns the account for fees that a provider has kept."""
    return f"provider_fee:{provider}"


def tax(name: str) -> str:
    """Returns the account for a tax that was collected and not remitted yet."""
    return f"{TAX}{name}"


def _is_platform_account(name: str) -> bool:
    is_common = name in ACCOUNTS and name != WALLET
    return is_common or name.startswith(PREFIXES)


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


class _Entry(msgspec.Struct, frozen=True):
    environment: Environment
    currency: str
    account: str
    minor: int


async def find(
    connection: Connection, merchant_id: int, trx_id: str, kind: PostingKind
) -> Posting | None:
    """Returns the transaction's posting of this kind, without its reason, to be reversed."""
    entries = await connection.rows(
        _Entry,
        """
        SELECT e.environment, e.currency, e.account, e.amount_minor AS minor FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         WHERE p.merchant_id = $1 AND p.trx_id = $2 AND p.kind = $3
         ORDER BY e.line""",
        *(merchant_id, trx_id, kind),
    )
    if not entries:
        return None
    first = entries[0]
    wallet_minor = sum(entry.minor for entry in entries if entry.account == WALLET)
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_id,
        kind=kind,
        environment=first.environment,
        wallet=Money(first.currency, wallet_minor),
        lines=tuple(Line(each.account, each.minor) for each in entries if each.account != WALLET),
    )


class _PostedRow(msgspec.Struct, frozen=True):
    item: int
    outcome: str
    balance_minor: int | None


POST = """
    SELECT item, outcome, balance_minor
      FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"""


async def post(db: Database | Connection, postings: Sequence[Posting]) -> list[Posted]:
    """Posts all postings in one SQL statement, and returns their results in the same order."""
    rows = await db.rows(_PostedRow, POST, list(range(len(postings))), *in_arrays(postings))
    rows.sort(key=lambda row: row.item)
    assert len(rows) == len(postings)
    return [Posted(PostingOutcome(row.outcome), row.balance_minor) for row in rows]


def in_arrays(postings: Sequence[Posting]) -> list[list[Any]]:
    """Returns the postings as parameters of an SQL function, from `p_merchant_ids` on."""
    return [
        [posting.merchant_id for posting in postings],
        [posting.trx_id for posting in postings],
        [posting.stored_kind for posting in postings],
        [posting.environment.value for posting in postings],
        [posting.wallet.currency for posting in postings],
        [posting.reason for posting in postings],
        [posting.wallet.minor for posting in postings],
        [number for number, posting in enumerate(postings, 1) for _ in posting.lines],
        [line.account for posting in postings for line in posting.lines],
        [line.minor for posting in postings for line in posting.lines],
    ]
