"""The suspense account: holds money until an administrator decides who owns it."""

from collections.abc import Sequence

import msgspec

from manilla.cases.cases import CaseAction
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting, timeline
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.payments import store
from manilla.payments.payment import Charge, ChargeStatus
from manilla.posting_kinds import PostingKind, kind_of


class NothingInSuspense(Refusal):
    message = "There is no money in the suspense account for this case."


class WalletTooFull(Refusal):
    message = "The wallet would exceed the maximum balance. Nothing was moved."


EXPLANATIONS = {
    CaseAction.CREDIT: "The money belongs to the merchant: the wallet is credited in full.",
    CaseAction.RETURN: "The money belongs to the payer: first refund it manually at the provider.",
    CaseAction.KEEP: "Nobody claims the money: it is posted as the platform's own (adjustment).",
}


class Suspended(msgspec.Struct, frozen=True):
    """What a charge has in the suspense account now."""

    environment: str
    currency: str
    amount_minor: int
    clearing: str

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)


class HeldMoney(msgspec.Struct, frozen=True):
    """Money in the suspense account, as the merchant sees it."""

    reference: str
    received: Money
    expected: Money | None  # None if the money arrived in addition to an accepted amount
    outcome: CaseAction | None  # None while an administrator is reviewing the money

    @property
    def is_wrong_amount(self) -> bool:
        return self.received != self.expected


async def release(
    connection: Connection, merchant_id: int, reference: str, action: CaseAction, why: str
) -> None:
    """Releases all money that the charge has in suspense. The caller has locked its payment.

    Raises `NothingInSuspense` if the money was released before.
    """
    found = await find_suspended(connection, merchant_id, reference)
    if found is None:
        raise NothingInSuspense
    amount = found.amount
    to = {CaseAction.RETURN: found.clearing, CaseAction.KEEP: posting.ADJUSTMENT}.get(action)
    released = Posting(
        merchant_id=merchant_id,
        trx_id=reference,
        kind=PostingKind.SUSPENSE_RELEASED,
        environment=Environment(found.environment),
        wallet=amount if to is None else Money(amount.currency, 0),
        lines=(
            Line(posting.SUSPENSE, -amount.minor),
            *(() if to is None else (Line(to, amount.minor),)),
        ),
        reason=why,
    )
    [posted] = await posting.post(connection, [await posting.with_number(connection, released)])
    if posted.outcome is PostingOutcome.BALANCE_LIMIT:
        raise WalletTooFull
    if posted.outcome is not PostingOutcome.POSTED:
        raise NothingInSuspense(f"The money could not be released: {posted.outcome}.")
    await add_to_timeline(
        connection, merchant_id, reference, f"suspense_{action}", f"{amount}, {why}"
    )


async def release_action(
    db: Connection | Database, merchant_id: int, reference: str
) -> CaseAction | None:
    """Returns how the money left the suspense account, or None if it is still there.

    If money arrived several times, this is about the latest money.
    """
    account: str | None = await db.value(
        f"""
        SELECT CASE WHEN {kind_of("p.kind")} = '{PostingKind.SUSPENSE_RELEASED}'
                    THEN e.account END
          FROM posting p
          JOIN entry s ON s.merchant_id = p.merchant_id AND s.posting_id = p.id
               AND s.account = 'suspense'
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
               AND e.account <> 'suspense'
         WHERE p.merchant_id = $1 AND p.trx_id = $2
         ORDER BY p.id DESC LIMIT 1""",
        *(merchant_id, reference),
    )
    if account is None:
        return None
    if account == "wallet":
        return CaseAction.CREDIT
    return CaseAction.RETURN if account.startswith("clearing:") else CaseAction.KEEP


async def held_money(db: Database, charges: Sequence[Charge]) -> list[HeldMoney]:
    found = []
    for charge in charges:
        is_held = charge.status is ChargeStatus.SUSPENSE
        if is_held or charge.excess_minor:
            paid_minor = charge.paid.minor if is_held else 0
            outcome = await release_action(db, charge.merchant_id, charge.reference)
            found.append(
                HeldMoney(
                    reference=charge.reference,
                    received=Money(charge.currency, paid_minor + charge.excess_minor),
                    expected=charge.amount if is_held else None,
                    outcome=outcome,
                )
            )
    return found


async def amount_in_ledger(connection: Connection, charge: Charge) -> Money | None:
    """Returns the charge's money that is or was in our ledger, or None if there was none."""
    if charge.status is not ChargeStatus.SUSPENSE:
        return Money(charge.currency, charge.accepted.minor + charge.excess_minor)
    # The money in the suspense account may be in another currency than was requested.
    currency: str | None = await connection.value(
        "SELECT currency FROM posting WHERE merchant_id = $1 AND trx_id = $2 AND kind = $3",
        *(charge.merchant_id, charge.reference, PostingKind.SUSPENSE),
    )
    return None if currency is None else Money(currency, charge.paid.minor + charge.excess_minor)


async def find_suspended(
    connection: Connection | Database, merchant_id: int, reference: str
) -> Suspended | None:
    return await connection.row(
        Suspended,
        """
        SELECT p.environment, p.currency, sum(s.amount_minor)::bigint AS amount_minor,
               'clearing:' || c.provider AS clearing
          FROM posting p
          JOIN entry s ON s.merchant_id = p.merchant_id AND s.posting_id = p.id
               AND s.account = 'suspense'
          JOIN charge c ON c.merchant_id = p.merchant_id AND c.reference = p.trx_id
         WHERE p.merchant_id = $1 AND p.trx_id = $2
         GROUP BY p.environment, p.currency, c.provider
        HAVING sum(s.amount_minor) > 0""",
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
