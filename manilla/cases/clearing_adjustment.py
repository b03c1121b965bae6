"""Adjusts the ledger after a provider contradicted itself: it has money that we count as ours.

The status of the transaction does not change. An administrator has found out who has the money and
decides who bears the loss.
"""

from typing import Any

import msgspec

from manilla.cases import suspense
from manilla.cases.suspense import Action
from manilla.kit.db import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting, timeline
from manilla.ledger import queries as ledger
from manilla.ledger.posting import Line, Posting, PostingOutcome


class NotCovered(Refusal):
    code = "insufficient_balance"
    message = "The merchant's wallet cannot cover it: use write_off, or fund the wallet."


class _Payout(msgspec.Struct, frozen=True):
    environment: str
    status: str
    currency: str
    amount_minor: int
    fee_minor: int
    provider: str
    provider_fee_minor: int | None


class _Charge(msgspec.Struct, frozen=True):
    environment: str
    status: str
    currency: str
    amount_minor: int
    provider: str


DELIVERED_AFTER_ALL = {
    Action.DEBIT: "It was delivered after all: the merchant's wallet is debited again.",
    Action.WRITE_OFF: "It was delivered after all: the platform bears the loss (adjustment).",
}
CAME_BACK = {
    Action.REVERSE: "It was not delivered: the payout becomes failed, the merchant is refunded the "
    "amount and fee and is notified, as when a provider reverses it.",
}
NEVER_PAID = {
    Action.WRITE_OFF: "It was never paid: the merchant keeps the credit, and the platform bears "
    "the loss (adjustment).",
}


async def ways(db: Database | Connection, merchant_id: int, reference: str) -> dict[Action, str]:
    if await _is_level(db, merchant_id, reference):
        return {}
    payout = await _payout(db, merchant_id, reference)
    if payout is not None:
        return {"failed": DELIVERED_AFTER_ALL, "completed": CAME_BACK}.get(payout.status, {})
    charge = await _charge(db, merchant_id, reference)
    return NEVER_PAID if charge is not None and charge.status == "paid" else {}


async def level(
    connection: Connection, merchant_id: int, reference: str, action: Action, why: str
) -> None:
    """Posts what the provider has. Runs once, because a case is resolved under its row's lock."""
    payout = await _payout(connection, merchant_id, reference)
    if payout is None:
        await _write_off_charge(connection, merchant_id, reference, why)
        return
    common = {"merchant_id": merchant_id, "trx_id": reference, "reason": why}
    postings = [_payout_posting(payout, action, common)]
    if payout.provider_fee_minor:
        postings.append(_fee_posting(payout, payout.provider_fee_minor, common))
    await _post(connection, postings)
    await timeline.add(
        connection,
        merchant_id,
        reference,
        f"case_{action}",
        before=payout.status,
        after=payout.status,
        detail=why,
    )


def _payout_posting(payout: _Payout, action: Action, common: dict[str, Any]) -> Posting:
    """Returns the delivery's posting against the wallet and our fee, or as a loss."""
    amount, fee = payout.amount_minor, payout.fee_minor
    is_debit = action is Action.DEBIT
    other = Line(posting.PAYOUT_FEE, fee) if is_debit else Line(posting.ADJUSTMENT, -amount)
    return Posting(
        kind=f"case_{action}",
        environment=Environment(payout.environment),
        wallet=Money(payout.currency, -(amount + fee) if is_debit else 0),
        lines=(Line(posting.clearing(payout.provider), amount), *posting.nonzero(other)),
        **common,
    )


def _fee_posting(payout: _Payout, fee_minor: int, common: dict[str, Any]) -> Posting:
    return Posting(
        kind="case_provider_fee",
        environment=Environment(payout.environment),
        wallet=Money(payout.currency, 0),
        lines=(
            Line(posting.clearing(payout.provider), fee_minor),
            Line(posting.provider_fee(payout.provider), -fee_minor),
        ),
        **common,
    )


async def _write_off_charge(
    connection: Connection, merchant_id: int, reference: str, why: str
) -> None:
    charge = await _charge(connection, merchant_id, reference)
    assert charge is not None
    await _post(
        connection,
        [
            Posting(
                merchant_id=merchant_id,
                trx_id=reference,
                kind="case_write_off",
                environment=Environment(charge.environment),
                wallet=Money(charge.currency, 0),
                lines=(
                    Line(posting.clearing(charge.provider), charge.amount_minor),
                    Line(posting.ADJUSTMENT, -charge.amount_minor),
                ),
                reason=why,
            )
        ],
    )
    await suspense.note(connection, merchant_id, reference, "case_write_off", why)


async def _post(connection: Connection, postings: list[Posting]) -> None:
    for posted in await ledger.post(connection, postings):
        if posted.outcome is PostingOutcome.INSUFFICIENT_BALANCE:
            raise NotCovered
        assert posted.outcome is PostingOutcome.POSTED, posted.outcome


async def _is_level(db: Database | Connection, merchant_id: int, reference: str) -> bool:
    return await db.has_row(
        """
        SELECT true FROM posting
         WHERE merchant_id = $1 AND trx_id = $2 AND kind IN ('case_write_off', 'case_debit')""",
        *(merchant_id, reference),
    )


async def _payout(db: Database | Connection, merchant_id: int, reference: str) -> _Payout | None:
    """Returns the payout if it was sent through a provider, in production."""
    return await db.row(
        _Payout,
        """
        SELECT environment, status, currency, amount_minor, fee_minor, provider, provider_fee_minor
          FROM payout
         WHERE merchant_id = $1 AND trx_id = $2 AND provider IS NOT NULL
           AND environment = 'production'""",
        *(merchant_id, reference),
    )


async def _charge(db: Database | Connection, merchant_id: int, reference: str) -> _Charge | None:
    return await db.row(
        _Charge,
        """
        SELECT p.environment, c.status, c.currency, c.paid_minor AS amount_minor, c.provider
          FROM charge c
          JOIN payment p ON p.merchant_id = c.merchant_id AND p.trx_id = c.trx_id
         WHERE c.merchant_id = $1 AND c.reference = $2 AND c.paid_minor IS NOT NULL""",
        *(merchant_id, reference),
    )
