"""Postings to the ledger and their results."""

from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money

LINES_MAX = 2  # as `ledger_post` takes them


class PostingOutcome(StrEnum):
    POSTED = "posted"
    DUPLICATE = "duplicate"  # (trx_id, kind) has been posted before; it is posted only once
    INSUFFICIENT_BALANCE = "insufficient_balance"
    NO_WALLET = "no_wallet"
    BALANCE_LIMIT = "balance_limit"


class Line(msgspec.Struct, frozen=True):
    """The change of one platform account; negative for a decrease."""

    account: str
    minor: int


def nonzero(*lines: Line) -> tuple[Line, ...]:
    """Leaves out lines without an amount, such as a commission of zero."""
    return tuple(line for line in lines if line.minor)


class Posting(msgspec.Struct, frozen=True):
    """A movement of money: the change of a wallet, balanced by one or two platform accounts."""

    merchant_id: int
    trx_id: str
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
    balance_minor: int | None  # the wallet's balance, if the posting changed it


def clearing(provider: str) -> str:
    """The account for money that a provider holds for us."""
    return f"clearing:{provider}"


def provider_fee(provider: str) -> str:
    """The account for fees that a provider has kept."""
    return f"provider_fee:{provider}"


COMMISSION = "commission"
PAYOUT_FEE = "payout_fee"
IN_FLIGHT = "in_flight"
SUSPENSE = "suspense"
ADJUSTMENT = "adjustment"
BANK = "bank"
