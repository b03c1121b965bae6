"""Refunds: debited at once, then paid back by the provider, or by a person who says so.

The wallet's money waits in flight until the refund is conclusively paid (it then leaves the
provider's clearing) or conclusively refused (it then returns to the wallet). Never on a guess.
"""

import msgspec

from manilla.audit import audit
from manilla.audit.audit import Filters
from manilla.kit import crash, ids, jobs
from manilla.kit.amount_input import parse_amount
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.ledger import posting, timeline
from manilla.ledger import queries as ledger
from manilla.ledger.posting import Line, Outcome, Posting
from manilla.payments import charge_queries, notices, queries, refund_queries
from manilla.payments.payment import Payment, Status
from manilla.payments.refund_queries import Refund, RefundStatus

SEND = "refund"
REASON_LENGTH_MAX = 200


class PaymentNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such payment."


class RefundNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such refund."


class RefundRefused(Refusal):
    message = "This payment cannot be refunded by this amount."


class RefundedMeanwhile(Refusal):
    status, code = 409, "REFUNDED_MEANWHILE"
    message = "A refund of this payment was started meanwhile. Nothing more was refunded."


class RefundNotCovered(Refusal):
    code = "insufficient_balance"
    message = "The merchant's wallet cannot cover the refund."


async def start(
    db: Database,
    trx_id: str,
    amount_text: str | None,
    reason: str,
    *,
    refunded_before: int | None = None,
) -> Refund:
    """Debits the wallet and leaves the rest to the refund's job.

    `refunded_before`: what had been refunded, in minor units, when this was asked for. Where it is
    more by now, the same may have been asked for twice, and nothing moves.
    """
    if not is_line(reason, REASON_LENGTH_MAX):
        raise RefundRefused(f"A reason has 1 to {REASON_LENGTH_MAX} printable characters.")
    merchant_id = ids.merchant_of(trx_id)
    async with db.transaction() as connection:
        payment = (
            None
            if merchant_id is None
            else await queries.payment(connection, merchant_id, trx_id, lock=True)
        )
        if payment is None:
            raise PaymentNotFound(f"There is no payment {trx_id}.")
        if refunded_before not in (None, payment.refunded_minor):
            raise RefundedMeanwhile
        amount = _refundable(payment, amount_text)
        refund = await _new_refund(connection, payment, amount, reason)
        await _debit(connection, refund)
        await refund_queries.insert(connection, refund)
        await _change_refunded(connection, payment, amount.minor)
        await _note(connection, payment, "refund_started", refund, reason)
        await jobs.put(connection, refund.merchant_id, SEND, refund.trx_id)
        await _record(connection, "refund.start", refund, reason)
        crash.point("before_refund_commit")
    return refund


def _refundable(payment: Payment, amount_text: str | None) -> Money:
    if payment.status is not Status.SUCCESS:
        raise RefundRefused(f"The payment is {payment.status}: only one that was paid is refunded.")
    rest = Money(payment.currency, payment.amount_minor - payment.refunded_minor)
    if rest.minor == 0:
        raise RefundRefused("The whole payment has been refunded already.")
    amount = rest if amount_text is None else parse_amount(amount_text, payment.currency)
    if not 0 < amount.minor <= rest.minor:
        raise RefundRefused(f"Of this payment up to {rest} can be refunded.")
    return amount


async def _new_refund(
    connection: Connection, payment: Payment, amount: Money, reason: str
) -> Refund:
    provider = None
    if payment.credited_charge is not None:
        charge = await charge_queries.charge(
            connection, payment.merchant_id, payment.credited_charge
        )
        assert charge is not None
        provider = charge.provider
    return Refund(
        merchant_id=payment.merchant_id,
        trx_id=ids.new_trx_id(payment.merchant_id),
        payment_trx_id=payment.trx_id,
        environment=payment.environment,
        currency=amount.currency,
        amount_minor=amount.minor,
        reason=reason,
        status=RefundStatus.PENDING,
        provider=provider,
        charge_reference=payment.credited_charge,
        by_operator=False,
        sent_at=None,
        detail=None,
        created_at=None,
    )


async def complete(db: Database, refund: Refund, detail: str, *, by_hand: bool = False) -> bool:
    """The customer has the money back. False where that was decided before."""
    async with db.transaction() as connection:
        payment, current = await _locked(connection, refund)
        if current.status is not RefundStatus.PENDING:
            return False
        # The money leaves what the provider holds for us, or our own bank.
        account = posting.BANK if by_hand else posting.clearing(current.payer)
        paid_by = Line(account, current.amount_minor)
        in_flight = Line(posting.IN_FLIGHT, -current.amount_minor)
        outcome = await _post(connection, current, "refund_paid", 0, in_flight, paid_by)
        assert outcome is Outcome.POSTED
        await refund_queries.decide(connection, current, RefundStatus.COMPLETED, detail)
        await _note(connection, payment, "refund_completed", current, detail)
        await notices.tell_of_refund(connection, payment, current.trx_id, current.amount)
        await jobs.forget(connection, current.merchant_id, SEND, current.trx_id)
        if by_hand:
            await _record(connection, "refund.confirm", current, detail)
        crash.point("before_refund_commit")
    return True


async def fail(
    db: Database,
    refund: Refund,
    detail: str,
    *,
    by_hand: bool = False,
    holder: Job | None = None,
) -> bool:
    """Conclusively refused: the wallet gets back what it was debited.

    `holder`: a refusal that counts only from whoever still holds the refund's job. One that comes
    to who was frozen is about a repetition, if another has sent the refund meanwhile.
    """
    async with db.transaction() as connection:
        payment, current = await _locked(connection, refund)
        if current.status is not RefundStatus.PENDING:
            return False
        if holder is not None and not await jobs.is_held(connection, holder):
            return False
        in_flight = Line(posting.IN_FLIGHT, -current.amount_minor)
        outcome = await _post(
            connection, current, "refund_returned", current.amount_minor, in_flight, None
        )
        assert outcome is Outcome.POSTED
        await refund_queries.decide(connection, current, RefundStatus.FAILED, detail)
        await _change_refunded(connection, payment, -current.amount_minor)
        await _note(connection, payment, "refund_failed", current, detail)
        await jobs.forget(connection, current.merchant_id, SEND, current.trx_id)
        if by_hand:
            await _record(connection, "refund.reject", current, detail)
        crash.point("before_refund_commit")
    return True


async def find(db: Database, trx_id: str) -> Refund:
    merchant_id = ids.merchant_of(trx_id)
    refund = None if merchant_id is None else await refund_queries.refund(db, merchant_id, trx_id)
    if refund is None:
        raise RefundNotFound(f"There is no refund {trx_id}.")
    return refund


async def decide(db: Database, trx_id: str, *, is_paid: bool, detail: str) -> Refund:
    """A person's word, for a refund that no provider can be asked about."""
    if not is_line(detail, REASON_LENGTH_MAX):
        raise RefundRefused(f"A note has 1 to {REASON_LENGTH_MAX} printable characters.")
    refund = await find(db, trx_id)
    if not refund.by_operator:
        raise RefundRefused(f"The refund is {refund.status}, and the provider's to decide.")
    decided = (
        await complete(db, refund, detail, by_hand=True)
        if is_paid
        else await fail(db, refund, detail, by_hand=True)
    )
    if not decided:
        raise RefundRefused(f"The refund is {(await find(db, trx_id)).status} already.")
    return await find(db, trx_id)


async def decision(db: Database, refund: Refund) -> str | None:
    """Who has decided it, and how, in words; None where no person has."""
    about = Filters(
        action="refund", merchant_id=refund.merchant_id, subject=f"refund:{refund.trx_id}"
    )
    words = {"refund.confirm": "has paid it", "refund.reject": "has rejected it"}
    for line in await audit.listed(db, about):
        if line.action in words:
            return f"{line.actor_name} {words[line.action]}: {line.detail.get('reason')}"
    return None


async def _locked(connection: Connection, refund: Refund) -> tuple[Payment, Refund]:
    """The payment first, as everybody does."""
    payment = await queries.payment(
        connection, refund.merchant_id, refund.payment_trx_id, lock=True
    )
    current = await refund_queries.refund(connection, refund.merchant_id, refund.trx_id)
    assert payment is not None
    assert current is not None
    return payment, current


async def _debit(connection: Connection, refund: Refund) -> None:
    lines = Line(posting.IN_FLIGHT, refund.amount_minor), None
    outcome = await _post(connection, refund, "refund", -refund.amount_minor, *lines)
    if outcome is Outcome.INSUFFICIENT_BALANCE:
        raise RefundNotCovered
    assert outcome is Outcome.POSTED


async def _post(
    connection: Connection,
    refund: Refund,
    kind: str,
    wallet_minor: int,
    first: Line,
    second: Line | None,
) -> Outcome:
    [posted] = await ledger.post(
        connection,
        [
            Posting(
                merchant_id=refund.merchant_id,
                trx_id=refund.trx_id,
                kind=kind,
                environment=refund.environment,
                wallet=Money(refund.currency, wallet_minor),
                first=first,
                second=second,
                reason=refund.reason,
            )
        ],
    )
    return posted.outcome


async def _change_refunded(connection: Connection, payment: Payment, minor: int) -> None:
    refunded_minor = payment.refunded_minor + minor
    await queries.change_payment(
        connection, msgspec.structs.replace(payment, refunded_minor=refunded_minor)
    )


async def _record(connection: Connection, action: str, refund: Refund, reason: str) -> None:
    await audit.record(
        connection,
        action,
        f"refund:{refund.trx_id}",
        merchant_id=refund.merchant_id,
        payment=refund.payment_trx_id,
        amount=refund.amount,
        reason=reason,
    )


async def _note(
    connection: Connection, payment: Payment, event: str, refund: Refund, detail: str
) -> None:
    await timeline.add(
        connection,
        payment.merchant_id,
        payment.trx_id,
        event,
        before=payment.status,
        after=payment.status,
        detail=f"{refund.trx_id}, {refund.amount}: {detail}",
    )
