"""Settlements between a provider and our bank, and provider fees, entered by administrators."""

from enum import StrEnum

import msgspec

from manilla.audit import audit
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.posting_kinds import PostingKind

NOBODY = 0  # the merchant id of postings without a merchant
NOTE_LENGTH_MAX = 200


class SettlementKind(StrEnum):
    TOP_UP = "top_up"  # money transferred from our bank to the provider's wallet
    SETTLEMENT = "settlement"  # money transferred from the provider to our bank
    FEE = "fee"  # a fee that the provider has kept
    FEE_RETURNED = "fee_returned"  # a fee that the provider has refunded


_POSTING_KINDS = {
    SettlementKind.TOP_UP: PostingKind.SETTLE_TOP_UP,
    SettlementKind.SETTLEMENT: PostingKind.SETTLE_SETTLEMENT,
    SettlementKind.FEE: PostingKind.SETTLE_FEE,
    SettlementKind.FEE_RETURNED: PostingKind.SETTLE_FEE_RETURNED,
}


class BadSettlement(Refusal):
    message = "This settlement cannot be posted."


class SettlementResult(msgspec.Struct, frozen=True):
    trx_id: str
    kind: SettlementKind
    provider: str
    amount: Money


def new_id() -> str:
    return trx_ids.new(NOBODY)


async def settle(
    db: Database,
    kind: SettlementKind,
    provider: str,
    amount: Money,
    note: str,
    trx_id: str | None = None,
) -> SettlementResult:
    """Posts a settlement. A second settlement with the same `trx_id` is not posted."""
    if amount.minor <= 0:
        raise BadSettlement("The amount must be above zero.")
    if not is_line(note, NOTE_LENGTH_MAX):
        raise BadSettlement(f"A note has 1 to {NOTE_LENGTH_MAX} printable characters.")
    if trx_id is not None and trx_ids.merchant_of(trx_id) != NOBODY:
        raise BadSettlement("This is not a settlement id. Reload the page.")
    trx_id = trx_id or new_id()
    order = Posting(
        merchant_id=NOBODY,
        trx_id=trx_id,
        kind=_POSTING_KINDS[kind],
        environment=Environment.PRODUCTION,
        wallet=Money(amount.currency, 0),
        lines=_lines(kind, provider, amount.minor),
        reason=note,
    )
    assert order.kind.audit_action is not None
    async with db.transaction() as connection:
        [posted] = await posting.post(connection, [order])
        if posted.outcome is PostingOutcome.DUPLICATE:
            return SettlementResult(trx_id, kind, provider, amount)
        assert posted.outcome is PostingOutcome.POSTED
        await audit.record(
            connection,
            order.kind.audit_action,
            f"provider:{provider}",
            amount=amount,
            note=note,
            trx_id=trx_id,
        )
    return SettlementResult(trx_id, kind, provider, amount)


def _lines(kind: SettlementKind, provider: str, minor: int) -> tuple[Line, Line]:
    """Returns the posting's lines.

    In the clearing account, money that the provider holds for us is negative.
    """
    clearing = posting.clearing(provider)
    match kind:
        case SettlementKind.TOP_UP:
            return Line(clearing, -minor), Line(posting.BANK, minor)
        case SettlementKind.SETTLEMENT:
            return Line(clearing, minor), Line(posting.BANK, -minor)
        case SettlementKind.FEE:
            return Line(clearing, minor), Line(posting.provider_fee(provider), -minor)
        case SettlementKind.FEE_RETURNED:
            return Line(clearing, -minor), Line(posting.provider_fee(provider), minor)
