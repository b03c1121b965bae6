"""Adjusts the ledger after a provider has contradicted itself about who has the money.

The transaction's status does not change. An administrator has found out who has the money and
decides who bears the loss. Each adjustment is posted to the clearing account of the case's
provider, which may be a rail that the payout was moved away from.
"""

from typing import Any

import msgspec

from manilla.cases.cases import Case, CaseAction
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import posting, timeline
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.payments import store as payments
from manilla.payments import suspense
from manilla.payments.payment import ChargeStatus
from manilla.payouts import attempts
from manilla.payouts import store as payouts
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.payouts.postings import charged_lines
from manilla.posting_kinds import PostingFlag, PostingKind, kind_of, kinds_with, part_of

Options = dict[CaseAction, str]
PostedKinds = frozenset[tuple[str, str]]  # the kinds of a transaction's postings, with their parts


class LossNotCovered(Refusal):
    code = "insufficient_balance"
    message = "The merchant's wallet cannot cover the amount. Use write_off, or fund the wallet."


DELIVERED_AFTER_ALL = {
    CaseAction.DEBIT: "The payout was delivered after all: the merchant's wallet is debited again.",
    CaseAction.WRITE_OFF: "The payout was delivered after all: the platform bears the loss "
    "(adjustment).",
}
CAME_BACK = {
    CaseAction.REVERSE: "The payout was not delivered: it becomes failed, and the merchant is "
    "notified and gets the amount and fee back, as when a provider reverses a payout.",
}
PAID_TWICE = {
    CaseAction.WRITE_OFF: "The payout was paid twice: the platform bears the loss of this "
    "provider's payment (adjustment).",
}
REFUND_PAID_AFTER_ALL = {
    CaseAction.WRITE_OFF: "The provider has paid the refund after all: the platform bears the loss "
    "(adjustment).",
}
NEVER_PAID = {
    CaseAction.WRITE_OFF: "The charge was never paid: the merchant keeps the credit, and the "
    "platform bears the loss (adjustment).",
}


class PaidTransfer(msgspec.Struct, frozen=True):
    """A payout that a provider has paid, with the provider's fee for it."""

    payout: Payout
    provider: str
    fee_minor: int

    @property
    def is_at_left_rail(self) -> bool:
        return self.provider != self.payout.provider

    @property
    def part(self) -> str:
        """The part of the postings' kinds. Each earlier rail that paid the payout has postings."""
        return self.provider if self.is_at_left_rail else ""


async def options(db: Database | Connection, case: Case) -> Options:
    transfer = await _transfer(db, case)
    if transfer is not None:
        return await _options_of_payout(db, transfer)
    posted = await _posted(db, case)
    if (PostingKind.CASE_WRITE_OFF, "") in posted:
        return {}
    if await _is_unposted_refund(db, case, posted):
        return REFUND_PAID_AFTER_ALL
    charge = await payments.charge(db, case.merchant_id, case.reference)
    return NEVER_PAID if charge is not None and charge.status is ChargeStatus.PAID else {}


async def _options_of_payout(db: Database | Connection, transfer: PaidTransfer) -> Options:
    key = transfer.payout.merchant_id, transfer.payout.trx_id
    posted = await _kinds(db, *key)
    if {(kind, transfer.part) for kind in kinds_with(PostingFlag.LOSS)} & posted:
        return {}
    match transfer.payout.status:
        case PayoutStatus.COMPLETED:
            return PAID_TWICE if transfer.is_at_left_rail else CAME_BACK
        case PayoutStatus.FAILED | PayoutStatus.CANCELED:
            was_debited = any(kind == PostingKind.CASE_DEBIT for kind, _ in posted)
            return PAID_TWICE if was_debited else DELIVERED_AFTER_ALL
    return {}


async def adjust(connection: Connection, case: Case, action: CaseAction, why: str) -> None:
    """Posts the adjustment for the case. The lock on the case ensures that it runs only once."""
    transfer = await _transfer(connection, case)
    if transfer is not None:
        await _adjust_payout(connection, transfer, action, why)
    elif await _is_unposted_refund(connection, case, await _posted(connection, case)):
        await _write_off_refund(connection, case, why)
    else:
        await _write_off_charge(connection, case.merchant_id, case.reference, why)


async def _adjust_payout(
    connection: Connection, transfer: PaidTransfer, action: CaseAction, why: str
) -> None:
    payout = transfer.payout
    common = {"merchant_id": payout.merchant_id, "trx_id": payout.trx_id, "reason": why}
    postings = [_payout_posting(transfer, action, common)]
    if transfer.fee_minor:
        postings.append(_fee_posting(transfer, common))
    await _post(connection, postings)
    await timeline.add(
        connection,
        payout.merchant_id,
        payout.trx_id,
        f"case_{action}",
        before=payout.status,
        after=payout.status,
        detail=why,
    )


def _payout_posting(transfer: PaidTransfer, action: CaseAction, common: dict[str, Any]) -> Posting:
    """Returns the payout's posting: a wallet debit that includes our fee, or our loss."""
    payout = transfer.payout
    amount = payout.amount_minor
    is_debit = action is CaseAction.DEBIT
    others = charged_lines(payout) if is_debit else [Line(posting.ADJUSTMENT, -amount)]
    return Posting(
        kind=PostingKind.CASE_DEBIT if is_debit else PostingKind.CASE_WRITE_OFF,
        part=transfer.part,
        environment=payout.environment,
        wallet=Money(payout.currency, -payout.refundable.minor if is_debit else 0),
        lines=(Line(posting.clearing(transfer.provider), amount), *posting.nonzero(*others)),
        **common,
    )


def _fee_posting(transfer: PaidTransfer, common: dict[str, Any]) -> Posting:
    return Posting(
        kind=PostingKind.CASE_PROVIDER_FEE,
        part=transfer.part,
        environment=transfer.payout.environment,
        wallet=Money(transfer.payout.currency, 0),
        lines=(
            Line(posting.clearing(transfer.provider), transfer.fee_minor),
            Line(posting.provider_fee(transfer.provider), -transfer.fee_minor),
        ),
        **common,
    )


async def _write_off_charge(
    connection: Connection, merchant_id: int, reference: str, why: str
) -> None:
    charge = await payments.charge(connection, merchant_id, reference)
    assert charge is not None
    assert charge.paid_minor is not None
    paid = Money(charge.currency, charge.paid_minor)
    key = merchant_id, reference
    await _write_off(connection, *key, charge.provider, paid, Environment.PRODUCTION, why)
    await suspense.add_to_timeline(connection, *key, "case_write_off", why)


async def _is_unposted_refund(db: Database | Connection, case: Case, posted: PostedKinds) -> bool:
    """Whether the case is about a refund that our ledger does not show as paid by this provider."""
    ends = {(PostingKind.REFUND_PAID, ""), (PostingKind.REFUND_RETURNED, "")}
    if not posted & ends or case.provider is None:
        return False
    return not await db.has_row(
        """
        SELECT true FROM posting g
          JOIN entry e ON e.merchant_id = g.merchant_id AND e.posting_id = g.id
         WHERE g.merchant_id = $1 AND g.trx_id = $2 AND g.kind = $4
           AND e.account = $3""",
        *(case.merchant_id, case.reference, posting.clearing(case.provider)),
        PostingKind.REFUND_PAID,
    )


async def _write_off_refund(connection: Connection, case: Case, why: str) -> None:
    assert case.provider is not None
    assert case.amount is not None
    assert case.trx_id is not None
    key, environment = (case.merchant_id, case.reference), Environment(case.environment or "")
    await _write_off(connection, *key, case.provider, case.amount, environment, why)
    payment = await payments.payment(connection, case.merchant_id, case.trx_id, lock=True)
    assert payment is not None
    await timeline.add(
        *(connection, case.merchant_id, case.trx_id, "case_write_off"),
        before=payment.status,
        after=payment.status,
        detail=f"refund {case.reference}: {why}",
    )


async def _write_off(
    connection: Connection,
    merchant_id: int,
    reference: str,
    provider: str,
    amount: Money,
    environment: Environment,
    why: str,
) -> None:
    """Posts money that the provider does not have as the platform's loss."""
    lost = Posting(
        merchant_id=merchant_id,
        trx_id=reference,
        kind=PostingKind.CASE_WRITE_OFF,
        environment=environment,
        wallet=Money(amount.currency, 0),
        lines=(
            Line(posting.clearing(provider), amount.minor),
            Line(posting.ADJUSTMENT, -amount.minor),
        ),
        reason=why,
    )
    await _post(connection, [lost])


async def _post(connection: Connection, postings: list[Posting]) -> None:
    for posted in await posting.post(connection, postings):
        if posted.outcome is PostingOutcome.INSUFFICIENT_BALANCE:
            raise LossNotCovered
        assert posted.outcome is PostingOutcome.POSTED, posted.outcome


async def _posted(db: Database | Connection, case: Case) -> PostedKinds:
    return await _kinds(db, case.merchant_id, case.reference)


async def _kinds(db: Database | Connection, merchant_id: int, reference: str) -> PostedKinds:
    records = await db.records(
        f"""
        SELECT {kind_of("kind")} AS kind, {part_of("kind")} AS part FROM posting
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(merchant_id, reference),
    )
    return frozenset((record["kind"], record["part"]) for record in records)


async def _transfer(db: Database | Connection, case: Case) -> PaidTransfer | None:
    """Returns the case's payout, or None if no provider sent it in production."""
    key = case.merchant_id, case.reference
    payout = await payouts.payout(db, *key)
    if payout is None or payout.provider is None or payout.is_sandbox:
        return None
    rail = case.provider or payout.provider
    if rail == payout.provider:
        return PaidTransfer(payout, rail, payout.provider_fee_minor or 0)
    fees = {each.provider: each.provider_fee_minor for each in await attempts.attempts(db, *key)}
    return PaidTransfer(payout, rail, fees.get(rail) or 0)
