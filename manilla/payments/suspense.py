"""The suspense account: holds money until an administrator decides who owns it."""

from collections.abc import Sequence

import msgspec

from manilla.cases.cases import CaseAction
from manilla.kit.db import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting, timeline
from manilla.ledger.posting import Line, Posting, PostingKind, PostingOutcome
from manilla.payments import store
from manilla.payments.payment import Charge, ChargeStatus


class NothingInSuspense(Refusal):
    message = "There is no money in the suspense account for this case."


class WalletTooFull(Refusal):
    message = "The wallet would exceed the maximum balance. Nothing was moved."


EXPLANATIONS = {
    CaseAction.CREDIT: "The money belongs to the merchant: the wallet is credited in full.",
    CaseAction.RETURN: "The money belongs to the payer: first refund it manually at the provider.",
    CaseAction.KEEP: "Nobody claims the money: it is posted as the platform's own (adjustment).",
}


class _Suspended(msgspec.Struct, frozen=True):
    environment: str
    currency: str
    amount_minor: int
    clearing: str


class HeldMoney(msgspec.Struct, frozen=True):
    """Money in the suspense account, as the merchant sees it."""

    reference: str
    received: Money
    expected: Money
    outcome: CaseAction | None  # None while an administrator is reviewing the money

    @property
    def is_wrong_amount(self) -> bool:
        return self.received != self.expected


async def release(
    connection: Connection, merchant_id: int, reference: str, action: CaseAction, why: str
) -> None:
    """Releases the money exactly once: a second call raises `NothingInSuspense`."""
    held = await _held(connection, merchant_id, reference)
    if held is None:
        raise NothingInSuspense
    amount = Money(held.currency, held.amount_minor)
    to = {CaseAction.RETURN: held.clearing, CaseAction.KEEP: posting.ADJUSTMENT}.get(action)
    [posted] = await posting.post(
        connection,
        [
            Posting(
                merchant_id=merchant_id,
                trx_id=reference,
                kind=PostingKind.SUSPENSE_RELEASED,
                environment=Environment(held.environment),
                wallet=amount if to is None else Money(amount.currency, 0),
                lines=(
                    Line(posting.SUSPENSE, -amount.minor),
                    *(() if to is None else (Line(to, amount.minor),)),
                ),
                reason=why,
            )
        ],
    )
    if posted.outcome is PostingOutcome.BALANCE_LIMIT:
        raise WalletTooFull
    if posted.outcome is not PostingOutcome.POSTED:
        raise NothingInSuspense(f"The money could not be released: {posted.outcome}.")
    await add_to_timeline(
        connection, merchant_id, reference, f"suspense_{action}", f"{amount}, {why}"
    )


async def is_held(connection: Connection | Database, merchant_id: int, reference: str) -> bool:
    return await _held(connection, merchant_id, reference) is not None


async def release_action(
    db: Connection | Database, merchant_id: int, reference: str
) -> CaseAction | None:
    """Returns how the money left the suspense account, or None if it is still there."""
    account: str | None = await db.value(
        """
        SELECT e.account FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         WHERE p.merchant_id = $1 AND p.trx_id = $2 AND p.kind = 'suspense_released'
           AND e.account <> 'suspense'""",
        *(merchant_id, reference),
    )
    if account is None:
        return None
    if account == "wallet":
        return CaseAction.CREDIT
    return CaseAction.RETURN if account.startswith("clearing:") else CaseAction.KEEP


async def held_money(db: Database, charges: Sequence[Charge]) -> list[HeldMoney]:
    return [
        HeldMoney(
            reference=charge.reference,
            received=Money(charge.currency, charge.paid_minor or 0),
            expected=charge.amount,
            outcome=await release_action(db, charge.merchant_id, charge.reference),
        )
        for charge in charges
        if charge.status is ChargeStatus.SUSPENSE
    ]


async def _held(
    connection: Connection | Database, merchant_id: int, reference: str
) -> _Suspended | None:
    return await connection.row(
        _Suspended,
        """
        SELECT p.environment, p.currency, s.amount_minor, 'clearing:' || c.provider AS clearing
          FROM posting p
          JOIN entry s ON s.merchant_id = p.merchant_id AND s.posting_id = p.id
               AND s.account = 'suspense'
          JOIN charge c ON c.merchant_id = p.merchant_id AND c.reference = p.trx_id
         WHERE p.merchant_id = $1 AND p.trx_id = $2 AND p.kind = 'suspense'
           AND NOT EXISTS (SELECT FROM posting r
                            WHERE r.merchant_id = $1 AND r.trx_id = $2
                              AND r.kind = 'suspense_released')""",
        *(merchant_id, reference),
    )


async def add_to_timeline(
    connection: Connection, merchant_id: int, reference: str, event: str, detail: str
) -> None:
    """Adds an event to the timeline of the charge's payment, and locks the payment's row.

    A charge's reference consists of the payment's id and a number.
    """
    trx_id = reference.partition("-")[0]
    payment = await store.payment(connection, merchant_id, trx_id, lock=True)
    if payment is not None:
        await timeline.add(
            connection,
            merchant_id,
            trx_id,
            event,
            before=payment.status,
            after=payment.status,
            detail=f"charge {reference}: {detail}",
        )
