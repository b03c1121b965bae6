"""Bank transfers of a wrong amount, which the merchant's rules may accept.

Money that is not credited to the merchant is customer credit: a surplus, or a partial payment. It
stays in a separate ledger account until it completes the payment or is refunded. Each function
runs in a transaction that has locked the payment's row.
"""

from collections.abc import Sequence

import msgspec

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.database.connections import Connection
from manilla.kit.money import Money
from manilla.ledger import timeline
from manilla.merchants import queries as merchants
from manilla.merchants.merchants import OverpaidRule, UnderpaidRule
from manilla.merchants.queries import WrongAmountRules
from manilla.payments import postings, store, suspense
from manilla.payments.payment import Charge, ChargeStatus, Payment, PaymentStatus
from manilla.posting_kinds import PostingKind


class ReceivedAmount(msgspec.Struct, frozen=True):
    """The amount received through a charge, and partial payments through earlier charges."""

    payment: Payment
    charge: Charge
    paid: Money
    parts: Sequence[Charge]  # partial payments, which count toward the amount due
    rules: WrongAmountRules

    @property
    def due(self) -> Money:
        return self.payment.quote.customer_pays

    @property
    def is_as_requested(self) -> bool:
        return self.paid == self.charge.amount

    @property
    def is_part(self) -> bool:
        """Whether the payment is still incomplete after this amount was received."""
        return self._total_minor < self.due.minor

    @property
    def surplus(self) -> Money:
        """The part of this amount that the payment does not need."""
        return Money(self.due.currency, max(0, self.paid.minor - self.due.minor))

    @property
    def is_usual(self) -> bool:
        """Whether this is the only amount received, and the amount due."""
        is_first = self.payment.received_minor is None
        return is_first and self.is_as_requested and not self.is_part

    def obstacle(self) -> str | None:
        """Returns why an administrator must review the amount, or None if the rules accept it."""
        detail = f"{self.paid} was paid; {self.charge.amount} was requested."
        if self.is_as_requested:
            if not self.is_part:
                return None
            detail = f"{self.paid} was paid; {self.due} is due."
        elif not self._has_rule:
            return detail
        if self.is_part:
            return None if self.rules.underpaid == UnderpaidRule.ASK else detail
        is_accepted = self._total_minor == self.due.minor
        return None if is_accepted or self.rules.overpaid == OverpaidRule.SETTLE else detail

    @property
    def _has_rule(self) -> bool:
        """Whether a rule can accept an amount that differs from the requested amount."""
        is_open = self.payment.status is not PaymentStatus.SUCCESS
        is_same_currency = self.paid.currency == self.due.currency
        return is_open and is_same_currency and self.charge.is_bank_transfer and self.paid.minor > 0

    @property
    def _total_minor(self) -> int:
        return self.paid.minor + sum(each.credit_minor for each in self.parts)


async def received_amount(
    connection: Connection, payment: Payment, charge: Charge, paid: Money
) -> ReceivedAmount:
    charges = await store.charges(connection, payment.merchant_id, payment.trx_id)
    # The customer credit of a failed payment is refunded, so it cannot complete the payment.
    is_open = payment.status is PaymentStatus.PENDING
    parts = [each for each in charges if each.credit_minor and is_open]
    rules = await merchants.wrong_amount_rules(connection, payment.merchant_id)
    return ReceivedAmount(payment, charge, paid, parts, rules)


async def keep_part(connection: Connection, received: ReceivedAmount) -> None:
    """Keeps a partial payment until the rest arrives, or refunds it if the payment has ended."""
    payment, charge, paid = received.payment, received.charge, received.paid
    await store.conclude_charge(
        connection, charge, ChargeStatus.PART, paid_minor=paid.minor, credit_minor=paid.minor
    )
    await postings.keep_credit(connection, payment, charge, paid, PostingKind.PART)
    after = add_received(payment, paid)
    await store.set_received(connection, after)
    rest = f"{after.rest} is still due" if payment.status is PaymentStatus.PENDING else "too late"
    detail = f"charge {charge.reference}: {paid} of {received.due} was received, {rest}."
    await _note(connection, payment, "part_received", detail)
    if payment.status is not PaymentStatus.PENDING:
        await return_credit(connection, payment)


async def complete(connection: Connection, received: ReceivedAmount) -> Payment:
    """Posts the entries that are needed to credit the whole amount due from one provider.

    Earlier partial payments move to the clearing account of this charge's provider, from which the
    amount due is then credited. A surplus becomes customer credit. Returns the updated payment.
    """
    payment, charge = received.payment, received.charge
    missing_minor = max(0, received.due.minor - received.paid.minor)
    for part in received.parts:
        used_minor = min(part.credit_minor, missing_minor)
        if used_minor:
            missing_minor -= used_minor
            used = Money(part.currency, used_minor)
            await postings.use_credit(connection, payment, part, used, charge.provider)
            await store.set_credit(connection, part, part.credit_minor - used_minor)
    assert missing_minor == 0, "the received amounts are not enough"
    if received.surplus.minor:
        await postings.keep_credit(
            connection, payment, charge, received.surplus, PostingKind.SURPLUS
        )
        detail = f"charge {charge.reference}: {received.surplus} above the amount due"
        await _note(connection, payment, "surplus_received", detail)
    return payment if received.is_usual else add_received(payment, received.paid)


async def receive_more(
    connection: Connection, payment: Payment, charge: Charge, paid: Money
) -> None:
    """Posts money that arrived for a charge after its first money to the suspense account.

    For example, a customer may send the remaining amount to the first transfer's account. If the
    provider now reports less than before, or another currency, no money moves.
    """
    booked = await suspense.amount_in_ledger(connection, charge) or Money(paid.currency, 0)
    if paid == booked:
        return
    detail = f"The provider now says {paid}; {booked} was accepted."
    if paid.currency != booked.currency or paid.minor < booked.minor:
        await _open_case(connection, payment, charge, f"{detail} Nothing was moved.", charge.amount)
        return
    excess = paid - booked
    await postings.suspend(connection, payment, charge, excess)
    await store.add_excess(connection, charge, excess)
    held = await suspense.find_suspended(connection, charge.merchant_id, charge.reference)
    assert held is not None
    detail = f"{detail} The difference is {excess}."
    await _open_case(connection, payment, charge, detail, held.amount, replaces=True)
    await _note(connection, payment, "suspense", f"charge {charge.reference}: {detail}")


def amount_to_return(payment: Payment) -> Money:
    """Returns the amount to refund to the customer of a payment that is no longer pending."""
    nothing = Money(payment.currency, 0)
    match payment.status:
        case PaymentStatus.SUCCESS:
            return payment.received - payment.quote.customer_pays
        case PaymentStatus.FAILED:
            return payment.received
    return nothing


def add_received(payment: Payment, paid: Money) -> Payment:
    return msgspec.structs.replace(payment, received_minor=payment.received.minor + paid.minor)


async def return_credit(connection: Connection, payment: Payment) -> None:
    """Adds jobs that refund the customer credit of a payment that is no longer pending."""
    for charge in await store.charges(connection, payment.merchant_id, payment.trx_id):
        if charge.credit_minor:
            await jobs.put(connection, charge.merchant_id, JobKind.RETURN, charge.reference)


async def hold_unreturned(
    connection: Connection, payment: Payment, reference: str, amount: Money, reason: str
) -> None:
    """Moves money to the suspense account after a failed refund, until an administrator decides."""
    charge = await store.charge(connection, payment.merchant_id, reference)
    assert charge is not None
    await postings.suspend_credit(connection, payment, charge, amount)
    detail = f"{amount} could not be returned to the customer: {reason}"
    kind = CaseKind.NOT_RETURNED
    await _open_case(connection, payment, charge, detail, amount, kind)
    await _note(connection, payment, "suspense", f"charge {reference}: {amount} was not returned")


async def _open_case(
    connection: Connection,
    payment: Payment,
    charge: Charge,
    detail: str,
    amount: Money,
    kind: CaseKind = CaseKind.WRONG_AMOUNT,
    *,
    replaces: bool = False,
) -> None:
    await cases.open_case(
        connection,
        kind,
        charge.reference,
        detail,
        merchant_id=payment.merchant_id,
        environment=payment.environment,
        trx_id=payment.trx_id,
        amount=amount,
        provider=charge.provider,
        replaces=replaces,
    )


async def _note(connection: Connection, payment: Payment, event: str, detail: str) -> None:
    status = payment.status
    await timeline.add(
        *(connection, payment.merchant_id, payment.trx_id, event),
        before=status,
        after=status,
        detail=detail,
    )
