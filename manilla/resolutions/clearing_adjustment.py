"""Adjusts the ledger after a provider contradicted itself and holds money that we count as ours.

The status of the transaction does not change. An administrator has found out who has the money and
decides who bears the loss.
"""

from typing import Any

from manilla.cases.cases import CaseAction
from manilla.kit.db import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting, timeline
from manilla.ledger import queries as ledger
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.payments import store as payments
from manilla.payments import suspense
from manilla.payments.payment import ChargeStatus
from manilla.payouts import store as payouts
from manilla.payouts.payout import Payout, PayoutStatus


class LossNotCovered(Refusal):
    code = "insufficient_balance"
    message = "The merchant's wallet cannot cover it: use write_off, or fund the wallet."


DELIVERED_AFTER_ALL = {
    CaseAction.DEBIT: "It was delivered after all: the merchant's wallet is debited again.",
    CaseAction.WRITE_OFF: "It was delivered after all: the platform bears the loss (adjustment).",
}
CAME_BACK = {
    CaseAction.REVERSE: "It was not delivered: the payout becomes failed, the merchant is refunded "
    "the amount and fee and is notified, as when a provider reverses it.",
}
BY_STATUS = {PayoutStatus.FAILED: DELIVERED_AFTER_ALL, PayoutStatus.COMPLETED: CAME_BACK}
NEVER_PAID = {
    CaseAction.WRITE_OFF: "It was never paid: the merchant keeps the credit, and the platform "
    "bears the loss (adjustment).",
}


async def options(
    db: Database | Connection, merchant_id: int, reference: str
) -> dict[CaseAction, str]:
    if await _is_adjusted(db, merchant_id, reference):
        return {}
    payout = await _payout(db, merchant_id, reference)
    if payout is not None:
        return BY_STATUS.get(payout.status, {})
    charge = await payments.charge(db, merchant_id, reference)
    return NEVER_PAID if charge is not None and charge.status is ChargeStatus.PAID else {}


async def adjust(
    connection: Connection, merchant_id: int, reference: str, action: CaseAction, why: str
) -> None:
    """Posts the money that the provider has. Runs only once, under the lock on the case's row."""
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


def _payout_posting(payout: Payout, action: CaseAction, common: dict[str, Any]) -> Posting:
    """Returns the posting of the delivered payout: to the wallet with our fee, or to our loss."""
    amount, fee = payout.amount_minor, payout.fee_minor
    is_debit = action is CaseAction.DEBIT
    other = Line(posting.PAYOUT_FEE, fee) if is_debit else Line(posting.ADJUSTMENT, -amount)
    return Posting(
        kind=f"case_{action}",
        environment=payout.environment,
        wallet=Money(payout.currency, -(amount + fee) if is_debit else 0),
        lines=(Line(posting.clearing(payout.provider or ""), amount), *posting.nonzero(other)),
        **common,
    )


def _fee_posting(payout: Payout, fee_minor: int, common: dict[str, Any]) -> Posting:
    return Posting(
        kind="case_provider_fee",
        environment=payout.environment,
        wallet=Money(payout.currency, 0),
        lines=(
            Line(posting.clearing(payout.provider or ""), fee_minor),
            Line(posting.provider_fee(payout.provider or ""), -fee_minor),
        ),
        **common,
    )


async def _write_off_charge(
    connection: Connection, merchant_id: int, reference: str, why: str
) -> None:
    charge = await payments.charge(connection, merchant_id, reference)
    assert charge is not None
    assert charge.paid_minor is not None
    await _post(
        connection,
        [
            Posting(
                merchant_id=merchant_id,
                trx_id=reference,
                kind="case_write_off",
                environment=Environment.PRODUCTION,  # charges exist only in production
                wallet=Money(charge.currency, 0),
                lines=(
                    Line(posting.clearing(charge.provider), charge.paid_minor),
                    Line(posting.ADJUSTMENT, -charge.paid_minor),
                ),
                reason=why,
            )
        ],
    )
    await suspense.add_to_timeline(connection, merchant_id, reference, "case_write_off", why)


async def _post(connection: Connection, postings: list[Posting]) -> None:
    for posted in await ledger.post(connection, postings):
        if posted.outcome is PostingOutcome.INSUFFICIENT_BALANCE:
            raise LossNotCovered
        assert posted.outcome is PostingOutcome.POSTED, posted.outcome


async def _is_adjusted(db: Database | Connection, merchant_id: int, reference: str) -> bool:
    return await db.has_row(
        """
        SELECT true FROM posting
         WHERE merchant_id = $1 AND trx_id = $2 AND kind IN ('case_write_off', 'case_debit')""",
        *(merchant_id, reference),
    )


async def _payout(db: Database | Connection, merchant_id: int, reference: str) -> Payout | None:
    """Returns the payout if it was sent through a provider in production."""
    payout = await payouts.payout(db, merchant_id, reference)
    return None if payout is None or payout.is_manual or payout.is_sandbox else payout
