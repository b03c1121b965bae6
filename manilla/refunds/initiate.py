"""Creates refunds. The wallet is debited, then the provider or an administrator pays the customer.

The money stays in the `in_flight` account until the provider's response is conclusive. If the
refund was paid, the money leaves the provider's clearing account. If the refund was rejected, the
money returns to the wallet.
"""

import msgspec

from manilla.audit import actor
from manilla.kit import crash, jobs, tracing
from manilla.kit.amount_input import parse_amount
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.ledger import outcomes, trx_ids
from manilla.ledger.transactions import Scenario
from manilla.payments import notices
from manilla.payments import store as payments
from manilla.payments.payment import Charge, ChargeStatus, Payment, PaymentStatus
from manilla.refunds import postings, states, store
from manilla.refunds.postings import RefundRefused
from manilla.refunds.refund import REASON_LENGTH_MAX, SEND, Refund, RefundStatus
from manilla.splits import movements


class PaymentNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such payment."


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
    """Debits the wallet and adds the job that sends the refund.

    `refunded_before`: the refunded amount, in minor units, that the caller saw. If it has changed,
    the same refund may have been requested twice, so nothing is refunded.

    `on_behalf`: an administrator refunds on behalf of the merchant, whatever the merchant's status.
    Only an administrator can refund the commission too (`with_commission`): the platform bears it.
    """
    assert on_behalf or not with_commission, "only an administrator can refund the commission"
    if not is_line(reason, REASON_LENGTH_MAX):
        raise RefundRefused(f"A reason must have 1 to {REASON_LENGTH_MAX} printable characters.")
    merchant_id = trx_ids.merchant_of(trx_id)
    async with db.transaction() as connection:
        payment = (
            None
            if merchant_id is None
            else await payments.payment(connection, merchant_id, trx_id, lock=True)
        )
        if payment is None:
            raise PaymentNotFound(f"There is no payment {trx_id}.")
        given = None if amount_text is None else parse_amount(amount_text, payment.currency)
        amount = refundable(payment, given, refunded_before)
        commission = _commission(payment, amount) if with_commission else Money(amount.currency, 0)
        refund = await new_refund(connection, payment, amount + commission, reason)
        refund = msgspec.structs.replace(
            refund, on_behalf=on_behalf, commission_minor=commission.minor
        )
        is_new = await write(connection, payment, refund)
        assert is_new, "only refunds with a reference of the merchant can conflict"
    return refund


async def write(connection: Connection, payment: Payment, refund: Refund) -> bool:
    """Debits the wallet and writes the refund, its events and its job.

    Returns False and writes nothing if the merchant's reference was used before. The caller holds
    the payment's lock, and calls this function last in its transaction.
    """
    if not await store.insert(connection, refund):
        return False
    notice = await notices.refund_notice(
        *(connection, payment, refund.trx_id, refund.ref_trx),
        *(refund.amount, refund.status, refund.source),
    )
    debited_minor, reason = refund.from_wallet_minor, refund.reason
    outcome = states.outcome_of(payment, refund, "started", reason, debited_minor, notice)
    async with movements.following(connection, states.with_refund(payment, debited_minor)):
        await postings.debit(connection, refund)
        await outcomes.apply(connection, outcome)
    if refund.scenario is not Scenario.PENDING:
        await jobs.put(connection, refund.merchant_id, SEND, refund.trx_id)
    if actor.current.get() != actor.API:
        # Refunds through the API are recorded only in the timeline, like payouts.
        # An audit entry would lock the head of the audit log, which all merchants share.
        await states.record(connection, "refund.start", refund, refund.reason)
    crash.point("before_refund_commit")
    return True


def refundable(payment: Payment, wanted: Money | None, refunded_before: int | None = None) -> Money:
    """Returns the amount to refund: the requested amount or, by default, the remaining amount.

    Raises an error if `refunded_before` is no longer the payment's refunded amount.
    """
    if refunded_before not in (None, payment.refunded_minor):
        raise RefundedMeanwhile
    if payment.status is not PaymentStatus.SUCCESS:
        raise RefundRefused(
            f"The payment is {payment.status}: only successful payments can be refunded."
        )
    rest = payment.refundable
    beside = f" {payment.disputed} of it is disputed." if payment.disputed_minor else ""
    if rest.minor == 0 and beside:
        raise RefundRefused(f"Nothing of this payment can be refunded.{beside}")
    if rest.minor == 0:
        raise RefundRefused("The payment has already been refunded in full.")
    amount = rest if wanted is None else wanted
    if not 0 < amount.minor <= rest.minor:
        raise RefundRefused(f"At most {rest} of this payment can be refunded.{beside}")
    return amount


def _commission(payment: Payment, amount: Money) -> Money:
    """Returns the commission, which is refunded only together with the remaining amount."""
    commission = payment.quote.customer_pays - payment.amount
    if commission.minor <= 0:
        raise RefundRefused("The customer paid no commission for this payment.")
    if payment.disputed_minor:
        # The dispute can release the rest, which would be refunded with the commission again.
        raise RefundRefused(
            "The commission cannot be refunded while a part of the payment is disputed."
        )
    if amount < payment.refundable:
        raise RefundRefused(
            f"The commission is refunded only with the full remaining amount: {payment.refundable}."
        )
    return commission


async def new_refund(
    connection: Connection, payment: Payment, amount: Money, reason: str
) -> Refund:
    if payment.credited_charge is None or payment.is_sandbox:
        return refund_of(payment, None, amount, reason)
    charge = await payments.charge(connection, payment.merchant_id, payment.credited_charge)
    assert charge is not None
    if payment.received_minor is None:
        return refund_of(payment, charge, amount, reason)
    covering = await _covering(connection, payment, charge, amount)
    refund = refund_of(payment, covering or charge, amount, reason)
    if covering is not None:
        return refund
    # A provider refunds at most the amount that was paid with a charge.
    detail = "The customer paid in parts, and none of them covers this refund."
    return msgspec.structs.replace(refund, by_operator=True, detail=detail)


async def _covering(
    connection: Connection, payment: Payment, first: Charge, amount: Money
) -> Charge | None:
    """Returns a charge whose unrefunded amount covers the refund, or None."""
    charges = await payments.charges(connection, payment.merchant_id, payment.trx_id)
    refunds = await store.refunds_of(connection, payment.merchant_id, payment.trx_id)
    for charge in sorted(charges, key=lambda each: each.reference != first.reference):
        refunded_minor = sum(
            each.amount_minor
            for each in refunds
            if each.charge_reference == charge.reference and each.status is not RefundStatus.FAILED
        )
        left_minor = charge.paid.minor - charge.credit_minor - refunded_minor
        is_credited = charge.status in (ChargeStatus.PAID, ChargeStatus.PART)
        if is_credited and left_minor >= amount.minor:
            return charge
    return None


def refund_of(payment: Payment, charge: Charge | None, amount: Money, reason: str) -> Refund:
    """Returns a new refund of a charge or, without a charge, of a sandbox payment."""
    trx_id, created_at = trx_ids.new_with_time(payment.merchant_id)
    return Refund(
        merchant_id=payment.merchant_id,
        trx_id=trx_id,
        payment_trx_id=payment.trx_id,
        environment=payment.environment,
        currency=amount.currency,
        amount_minor=amount.minor,
        reason=reason,
        status=RefundStatus.PENDING,
        provider=None if charge is None else charge.provider,
        charge_reference=None if charge is None else charge.reference,
        by_operator=False,
        sent_at=None,
        detail=None,
        created_at=created_at,
        traceparent=tracing.current(),
    )
