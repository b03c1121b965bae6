"""Refunds: the wallet is debited at once, then the provider or an administrator pays the customer.

The money stays in flight until the refund is conclusively paid (it then leaves the provider's
clearing account) or conclusively rejected (it then returns to the wallet). It never moves without a
conclusive answer.
"""

import msgspec

from manilla.audit import audit
from manilla.audit.audit import Filters
from manilla.kit import crash, jobs
from manilla.kit.amount_input import parse_amount
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.ledger import timeline, trx_ids
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.payments import charge_queries, notices, queries, refund_books, refund_queries
from manilla.payments.payment import Payment, Status
from manilla.payments.refund_books import RefundRefused
from manilla.payments.refund_queries import Refund, RefundStatus

SEND = outgoing.REFUND
REASON_LENGTH_MAX = 200
# Not while all payouts are on hold after a restore: the database may then be older than a send.
REJECTED_WHILE = frozenset(OutgoingHold) - {OutgoingHold.PAYOUTS_HELD}


class PaymentNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such payment."


class RefundNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such refund."


class RefundedMeanwhile(Refusal):
    status, code = 409, "REFUNDED_MEANWHILE"
    message = "Another refund of this payment was started meanwhile, so this one was not started."


async def start(
    db: Database,
    trx_id: str,
    amount_text: str | None,
    reason: str,
    *,
    refunded_before: int | None = None,
    on_behalf: bool = False,
    with_commission: bool = False,
) -> Refund:
    """Debits the wallet and leaves the rest to the refund's job.

    `refunded_before`: the refunded amount, in minor units, that the caller saw. If it has changed,
    the same refund may have been requested twice, so nothing is refunded.

    `on_behalf`: an administrator refunds on behalf of the merchant, whatever the merchant's status.
    Only then can the commission be refunded too (`with_commission`), because the platform bears it.
    """
    assert on_behalf or not with_commission, "only an administrator can refund the commission"
    if not is_line(reason, REASON_LENGTH_MAX):
        raise RefundRefused(f"A reason must have 1 to {REASON_LENGTH_MAX} printable characters.")
    merchant_id = trx_ids.merchant_of(trx_id)
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
        refund = msgspec.structs.replace(refund, on_behalf=on_behalf)
        if with_commission:
            refund = _add_commission(payment, refund)
        await refund_books.debit(connection, refund)
        await refund_queries.insert(connection, refund)
        await _change_refunded(connection, payment, refund.from_wallet_minor)
        await _note(connection, payment, "refund_started", refund, reason)
        await jobs.put(connection, refund.merchant_id, SEND, refund.trx_id)
        await _record(connection, "refund.start", refund, reason)
        crash.point("before_refund_commit")
    return refund


def _refundable(payment: Payment, amount_text: str | None) -> Money:
    if payment.status is not Status.SUCCESS:
        raise RefundRefused(
            f"The payment is {payment.status}: only successful payments can be refunded."
        )
    rest = payment.refundable
    if rest.minor == 0:
        raise RefundRefused("The payment has already been refunded in full.")
    amount = rest if amount_text is None else parse_amount(amount_text, payment.currency)
    if not 0 < amount.minor <= rest.minor:
        raise RefundRefused(f"At most {rest} of this payment can be refunded.")
    return amount


def _add_commission(payment: Payment, refund: Refund) -> Refund:
    """Adds the commission to a refund that returns the rest of the amount to the customer."""
    commission_minor = payment.quote.customer_pays.minor - payment.amount_minor
    if commission_minor <= 0:
        raise RefundRefused("The customer paid no commission for this payment.")
    if refund.amount < payment.refundable:
        raise RefundRefused("The commission is refunded only with the whole payment.")
    whole_minor = refund.amount_minor + commission_minor
    return msgspec.structs.replace(
        refund, amount_minor=whole_minor, commission_minor=commission_minor
    )


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
        trx_id=trx_ids.new(payment.merchant_id),
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
    """Records that the customer was paid. Returns False if the refund was already final."""
    async with db.transaction() as connection:
        payment, current = await _locked(connection, refund)
        if current.status is not RefundStatus.PENDING:
            return False
        await refund_books.pay(connection, current, by_hand=by_hand)
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
    is_unsent: bool = False,
) -> bool:
    """Records a conclusive rejection and returns the debit to the wallet.

    If `holder` is given, the rejection is ignored unless that worker still holds the refund's job.
    A worker that stalled may receive a rejection that only means that another worker has sent the
    refund in the meantime.

    `is_unsent`: fails the refund only if it was not sent, and ensures that it never will be.
    """
    async with db.transaction() as connection:
        payment, current = await _locked(connection, refund)
        if current.status is not RefundStatus.PENDING:
            return False
        if holder is not None and not await jobs.is_held(connection, holder):
            return False
        if is_unsent and not await refund_queries.lock_unsent(connection, current):
            return False
        await refund_books.give_back(connection, current)
        await refund_queries.decide(connection, current, RefundStatus.FAILED, detail)
        await _change_refunded(connection, payment, -current.from_wallet_minor)
        await _note(connection, payment, "refund_failed", current, detail)
        await jobs.forget(connection, current.merchant_id, SEND, current.trx_id)
        if by_hand:
            await _record(connection, "refund.reject", current, detail)
        crash.point("before_refund_commit")
    return True


async def find(db: Database, trx_id: str) -> Refund:
    merchant_id = trx_ids.merchant_of(trx_id)
    refund = None if merchant_id is None else await refund_queries.refund(db, merchant_id, trx_id)
    if refund is None:
        raise RefundNotFound(f"There is no refund {trx_id}.")
    return refund


async def decide(db: Database, trx_id: str, *, is_paid: bool, detail: str) -> Refund:
    """Records an administrator's decision on a refund that was left to them, or that is on hold."""
    if not is_line(detail, REASON_LENGTH_MAX):
        raise RefundRefused(f"A note must have 1 to {REASON_LENGTH_MAX} printable characters.")
    refund = await find(db, trx_id)
    can_be_rejected = not is_paid and await hold_of(db, refund) in REJECTED_WHILE
    if not (refund.by_operator or can_be_rejected):
        raise RefundRefused(f"The refund is {refund.status}. The provider decides its outcome.")
    decided = (
        await complete(db, refund, detail, by_hand=True)
        if is_paid
        else await fail(db, refund, detail, by_hand=True, is_unsent=not refund.by_operator)
    )
    if not decided:
        current = await find(db, trx_id)
        state = "sent" if current.status is RefundStatus.PENDING else current.status
        raise RefundRefused(f"The refund is {state} already.")
    return await find(db, trx_id)


async def decision(db: Database, refund: Refund) -> str | None:
    """Returns a sentence that says who decided and how; None if no administrator has."""
    about = Filters(
        action="refund", merchant_id=refund.merchant_id, subject=f"refund:{refund.trx_id}"
    )
    words = {"refund.confirm": "has paid it", "refund.reject": "has rejected it"}
    for line in await audit.listed(db, about):
        if line.action in words:
            return f"{line.actor_name} {words[line.action]}: {line.detail.get('reason')}"
    return None


async def _locked(connection: Connection, refund: Refund) -> tuple[Payment, Refund]:
    """Locks the payment before it reads the refund, as every other function does."""
    payment = await queries.payment(
        connection, refund.merchant_id, refund.payment_trx_id, lock=True
    )
    current = await refund_queries.refund(connection, refund.merchant_id, refund.trx_id)
    assert payment is not None
    assert current is not None
    return payment, current


async def hold_of(db: Database, refund: Refund) -> OutgoingHold | None:
    """Returns why an unsent refund is on hold; None if it is not on hold, or was sent."""
    is_open = refund.status is RefundStatus.PENDING and not refund.by_operator
    if not is_open or refund.sent_at is not None:
        return None
    return await outgoing.hold(
        db, refund.merchant_id, refund.environment, on_behalf=refund.on_behalf
    )


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
