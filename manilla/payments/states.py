"""The states of a payment, and the only functions that change them.

Each function runs in one transaction that locks the payment's row. Status, money, timeline and
notification are written together or not at all, and a concurrent caller sees the committed result.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs, tracing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import outcomes, timeline, trx_ids
from manilla.ledger.outcomes import EndedJob, TimelineStep, TransactionOutcome
from manilla.ledger.posting import Posting
from manilla.ledger.transactions import Scenario
from manilla.payments import notices, postings, store, wrong_amounts
from manilla.payments.declines import decline_of
from manilla.payments.initiate import COMPLETE_IN_SANDBOX, EXPIRE
from manilla.payments.payment import (
    SANDBOX,
    Charge,
    ChargeStatus,
    NewPayment,
    Payment,
    PaymentErrorCode,
    PaymentStatus,
)
from manilla.payments.payment_links import earnings
from manilla.payments.payment_links.earnings import LinkAlreadyPaid
from manilla.payments.postings import WalletLimitReached
from manilla.payments.wrong_amounts import ReceivedAmount
from manilla.prices.price import TaxBearer
from manilla.providers import claims, port
from manilla.providers.claims import Claimed
from manilla.providers.port import ChargeState, WebhookSubject
from manilla.splits import movements


class PaymentState(StrEnum):
    """A payment's status, with a separate state for each cause of a failure."""

    PENDING = "pending"
    SUCCESS = "success"
    DECLINED = "declined"
    CANCELED = "canceled"
    EXPIRED = "expired"


class PaymentEvent(StrEnum):
    PAID = "paid"
    DECLINED = "declined"
    CANCELED = "canceled"
    EXPIRED = "expired"


# An unlisted transition changes no status, and any money received goes to the suspense account.
# A decline ends a charge, not the payment, except for a sandbox payment without a charge, and for a
# payment that charges a saved way: no customer is there to try again.
NEXT: dict[tuple[PaymentState, PaymentEvent], PaymentStatus] = {
    (PaymentState.PENDING, PaymentEvent.PAID): PaymentStatus.SUCCESS,
    (PaymentState.PENDING, PaymentEvent.DECLINED): PaymentStatus.FAILED,
    (PaymentState.PENDING, PaymentEvent.CANCELED): PaymentStatus.FAILED,
    (PaymentState.PENDING, PaymentEvent.EXPIRED): PaymentStatus.FAILED,
    # The customer's money arrived after the payment was canceled, declined or expired.
    (PaymentState.DECLINED, PaymentEvent.PAID): PaymentStatus.SUCCESS,
    (PaymentState.CANCELED, PaymentEvent.PAID): PaymentStatus.SUCCESS,
    (PaymentState.EXPIRED, PaymentEvent.PAID): PaymentStatus.SUCCESS,
}


def state_of(payment: Payment) -> PaymentState:
    match payment.error_code:
        case PaymentErrorCode.EXPIRED_SESSION:
            return PaymentState.EXPIRED
        case PaymentErrorCode.PAYMENT_CANCELED:
            return PaymentState.CANCELED
        case PaymentErrorCode.PAYMENT_DECLINED | PaymentErrorCode.INSUFFICIENT_FUNDS:
            return PaymentState.DECLINED
    return PaymentState.SUCCESS if payment.status is PaymentStatus.SUCCESS else PaymentState.PENDING


class HeldInProduction(Refusal):
    code = "HELD_FOR_REVIEW"
    message = (
        "Your rule holds this amount for review, which only production has. "
        "To try it in the sandbox, change the rule under Payment Gateway Controls."
    )


class UnknownPayment(Exception):
    """No payment has this id. If the id came from our own data, this is a bug."""


async def end_in_sandbox(
    db: Database,
    merchant_id: int,
    trx_id: str,
    event: PaymentEvent,
    error_code: PaymentErrorCode | None = None,
) -> None:
    async with db.transaction() as connection:
        payment = await _locked(connection, merchant_id, trx_id)
        assert payment.is_sandbox
        if event is not PaymentEvent.PAID:
            await _fail(connection, payment, event, error_code)
        elif state_of(payment) is not PaymentState.SUCCESS:
            charge = await _open_charge(connection, payment)
            if charge is not None or state_of(payment) is not PaymentState.DECLINED:
                await _credit_in_sandbox(connection, payment, charge)
            if payment.scenario is Scenario.DISPUTED:
                await jobs.put(connection, merchant_id, JobKind.DISPUTES, trx_id)


async def transfer_in_sandbox(
    db: Database, merchant_id: int, trx_id: str, sent: Callable[[Money], Money]
) -> None:
    """Applies the merchant's rules for wrong amounts to a test transfer.

    `sent` computes the transfer's amount from the requested amount. Nothing happens if no account
    is waiting for a transfer, for example after a double click. An amount that the rules hold for
    review is rejected, because no administrator reviews sandbox payments.
    """
    async with db.transaction() as connection:
        payment = await _locked(connection, merchant_id, trx_id)
        assert payment.is_sandbox
        charge = await _open_charge(connection, payment)
        is_closed = state_of(payment) is PaymentState.SUCCESS
        if charge is None or not charge.is_bank_transfer or is_closed:
            return
        paid = sent(charge.amount)
        received = await wrong_amounts.received_amount(connection, payment, charge, paid)
        if received.obstacle() is not None:
            raise HeldInProduction
        await _accept_in_sandbox(connection, received)


async def let_expire_in_sandbox(
    db: Database, merchant_id: int, trx_id: str, *, paid_in_seconds: float
) -> None:
    """Fails the payment as if its link had expired. A job then applies the late test transfer."""
    async with db.transaction() as connection:
        payment = await _locked(connection, merchant_id, trx_id)
        assert payment.is_sandbox
        charge = await _open_charge(connection, payment)
        is_waiting = charge is not None and charge.is_bank_transfer
        if is_waiting and await _expire(connection, payment):
            key = merchant_id, COMPLETE_IN_SANDBOX, trx_id
            await jobs.put(connection, *key, in_seconds=paid_in_seconds)


async def decline_in_sandbox(
    db: Database, merchant_id: int, trx_id: str, error_code: PaymentErrorCode
) -> bool:
    """Declines the customer's charge, as a provider would. Returns False if no charge is open."""
    async with db.transaction() as connection:
        payment = await _locked(connection, merchant_id, trx_id)
        assert payment.is_sandbox
        charge = await _open_charge(connection, payment)
        if charge is None or payment.status is not PaymentStatus.PENDING:
            return False
        reason = error_code.lower()
        failed = ChargeState(port.ReportedChargeStatus.FAILED, reason=reason)
        await _charge_failed(connection, payment, charge, failed)
        return True


async def _open_charge(connection: Connection, payment: Payment) -> Charge | None:
    charges = await store.charges(connection, payment.merchant_id, payment.trx_id)
    return next((charge for charge in reversed(charges) if charge.is_payable), None)


async def _credit_in_sandbox(
    connection: Connection, payment: Payment, charge: Charge | None
) -> None:
    """Credits a sandbox payment, which has no provider and no money in the suspense account."""
    if charge is not None:
        paid = charge.amount
        received = await wrong_amounts.received_amount(connection, payment, charge, paid)
        await _accept_in_sandbox(connection, received)
        return
    if payment.received_minor is not None:
        await _expire(connection, payment)  # the customer did not pay the rest
        return
    try:
        async with connection.transaction():
            await _credit(connection, payment, SANDBOX, None)
    except (WalletLimitReached, LinkAlreadyPaid):
        await _fail(connection, payment, PaymentEvent.DECLINED, PaymentErrorCode.PAYMENT_DECLINED)


async def _accept_in_sandbox(connection: Connection, received: ReceivedAmount) -> None:
    if await _accept(connection, received) is not None:
        code = PaymentErrorCode.PAYMENT_DECLINED
        await _fail(connection, received.payment, PaymentEvent.DECLINED, code)


async def give_up(
    db: Database,
    merchant_id: int,
    trx_id: str,
    event: PaymentEvent,
    error_code: PaymentErrorCode,
    facts: Mapping[str, str] = timeline.NO_FACTS,
) -> bool:
    """Fails a payment that was not paid: the customer or the merchant canceled it, or it expired.

    `facts` are added to the timeline's event.
    """
    async with db.transaction() as connection:
        payment = await _locked(connection, merchant_id, trx_id)
        return await _fail(connection, payment, event, error_code, facts)


async def expire(db: Database, merchant_id: int, trx_id: str) -> bool:
    """Fails a payment whose link has expired. If a charge was declined, uses its error code."""
    async with db.transaction() as connection:
        return await _expire(connection, await _locked(connection, merchant_id, trx_id))


async def _expire(connection: Connection, payment: Payment) -> bool:
    declined = await store.last_decline(connection, payment.merchant_id, payment.trx_id)
    code = declined or PaymentErrorCode.EXPIRED_SESSION
    return await _fail(connection, payment, PaymentEvent.EXPIRED, code)


@tracing.as_step("settle")
async def conclude(db: Database, charge: Charge, state: ChargeState) -> None:
    """Applies the status that a provider reports for a charge."""
    async with db.transaction() as connection:
        payment = await _locked(connection, charge.merchant_id, charge.trx_id)
        current = await store.charge(connection, charge.merchant_id, charge.reference)
        assert current is not None
        said = await claims.claims_of(
            *(
                connection,
                WebhookSubject.CHARGE,
                charge.merchant_id,
                charge.reference,
                charge.provider,
            )
        )
        match state.status:
            case port.ReportedChargeStatus.PAID:
                await _paid(connection, payment, current, state, said)
            case port.ReportedChargeStatus.FAILED:
                await _charge_failed(connection, payment, current, state)
            case port.ReportedChargeStatus.EXPIRED if current.is_undecided:
                await store.conclude_charge(connection, current, ChargeStatus.EXPIRED)
        if state.status is not port.ReportedChargeStatus.PAID:
            await _report_disagreement(connection, payment, current, said)
        crash.point("before_payment_commit")
    crash.point("after_payment_commit")


async def receive_transfer(
    connection: Connection,
    new: NewPayment,
    charge: Charge,
    state: ChargeState,
    said: Sequence[Claimed],
    obstacle: str | None,
) -> None:
    """Creates and credits the payment of a transfer that arrived in a customer's account.

    If there is an obstacle, the payment fails, and the money is held until an administrator
    decides. The caller has made sure that the transfer was not received before.
    """
    await store.insert_payment(connection, new)
    await store.insert_transfer(connection, charge)
    payment = await _locked(connection, new.merchant_id, new.trx_id)
    held = None if obstacle is None else (CaseKind.ACCOUNT_TRANSFER, obstacle)
    await _paid(connection, payment, charge, state, said, held)
    payment = await _locked(connection, new.merchant_id, new.trx_id)
    if payment.status is PaymentStatus.PENDING:
        await _fail(connection, payment, PaymentEvent.DECLINED, PaymentErrorCode.PAYMENT_DECLINED)


async def receive_in_sandbox(connection: Connection, new: NewPayment, charge: Charge) -> None:
    """Credits a test transfer into a customer's account."""
    await store.insert_payment(connection, new)
    await store.insert_transfer(connection, charge)
    payment = await _locked(connection, new.merchant_id, new.trx_id)
    assert payment.is_sandbox
    await _credit_in_sandbox(connection, payment, charge)


async def decline(db: Database, charge: Charge, reason: str) -> None:
    """Declines a charge that the provider certainly does not have, or has rejected."""
    async with db.transaction() as connection:
        payment = await _locked(connection, charge.merchant_id, charge.trx_id)
        current = await store.charge(connection, charge.merchant_id, charge.reference)
        assert current is not None
        await decline_locked(connection, payment, current, reason)


async def decline_locked(
    connection: Connection, payment: Payment, charge: Charge, reason: str
) -> None:
    failed = ChargeState(port.ReportedChargeStatus.FAILED, reason=reason)
    await _charge_failed(connection, payment, charge, failed)


async def _locked(connection: Connection, merchant_id: int, trx_id: str) -> Payment:
    payment = await store.payment(connection, merchant_id, trx_id, lock=True)
    if payment is None:
        raise UnknownPayment(trx_id)
    return payment


async def _paid(
    connection: Connection,
    payment: Payment,
    charge: Charge,
    state: ChargeState,
    said: Sequence[Claimed],
    held: tuple[CaseKind, str] | None = None,
) -> None:
    """`held`: why an administrator must decide about the money, whatever its amount is."""
    assert state.paid is not None
    if charge.has_arrived:
        # The first money is already in the ledger. More may have arrived since.
        await wrong_amounts.receive_more(connection, payment, charge, state.paid)
        others = [each for each in said if not each.is_within(charge.accepted, state.paid)]
        await _report_disagreement(connection, payment, charge, others)
        return
    received = await wrong_amounts.received_amount(connection, payment, charge, state.paid)
    trouble = held or _trouble(received, said)
    if trouble is None:
        trouble = await _accept(connection, received)
    if trouble is None:
        await _report_disagreement(connection, payment, charge, said, state.paid)
    else:
        await _suspend(connection, payment, charge, state.paid, *trouble)
    await postings.keep_provider_fee(connection, payment, charge, state.fee)
    if state.provider_reference is not None:
        await store.save_provider_reference(connection, charge, state.provider_reference)


async def _accept(connection: Connection, received: ReceivedAmount) -> tuple[CaseKind, str] | None:
    """Credits the payment, or stores a partial payment until the rest arrives.

    If crediting is impossible, returns the reason and changes nothing.
    """
    if received.is_part:
        await wrong_amounts.keep_part(connection, received)
        return None
    payment, charge = received.payment, received.charge
    try:
        async with connection.transaction():
            completed = await wrong_amounts.complete(connection, received)
            paid = paid_charge(charge, received.paid, received.surplus)
            await _credit(connection, completed, charge.provider, paid)
            if not received.is_usual:
                await wrong_amounts.return_credit(connection, completed)
    except WalletLimitReached:
        return CaseKind.WALLET_FULL, "The wallet would exceed the maximum balance."
    except LinkAlreadyPaid:
        return CaseKind.LINK_ALREADY_PAID, f"Payment link {payment.link_id} was paid before."
    return None


def _trouble(received: ReceivedAmount, said: Sequence[Claimed]) -> tuple[CaseKind, str] | None:
    """Returns the case to open if the money must not be accepted, otherwise None."""
    payment, obstacle = received.payment, received.obstacle()
    if obstacle is not None:
        return CaseKind.WRONG_AMOUNT, obstacle
    for claim in claims.disagreeing(said, received.paid):
        if claim.status in (None, port.ReportedChargeStatus.PAID):
            detail = f"A signed webhook says {claim.text}, the provider {received.paid} when asked."
            return CaseKind.WEBHOOK_DISAGREES, detail
    if (state_of(payment), PaymentEvent.PAID) in NEXT:
        return None
    return CaseKind.SECOND_CHARGE_PAID, f"{payment.credited_charge} was paid before."


async def _report_disagreement(
    connection: Connection,
    payment: Payment,
    charge: Charge,
    said: Sequence[Claimed],
    accepted: Money | None = None,
) -> None:
    if charge.status is ChargeStatus.SUSPENSE:
        return  # a charge in the suspense account already has a case
    for claim in claims.disagreeing(said, accepted or charge.accepted):
        detail = f"A signed webhook says {claim.text}; {charge.amount} was asked for."
        await _open_case(connection, payment, charge, CaseKind.WEBHOOK_DISAGREES, detail)


async def _open_case(
    connection: Connection,
    payment: Payment,
    charge: Charge,
    kind: CaseKind,
    detail: str,
    amount: Money | None = None,
) -> None:
    await cases.open_case(
        connection,
        kind,
        charge.reference,
        detail,
        merchant_id=payment.merchant_id,
        environment=payment.environment,
        trx_id=payment.trx_id,
        amount=amount or charge.amount,
        provider=charge.provider,
    )


async def _credit(
    connection: Connection, payment: Payment, payer: str, charge: Charge | None
) -> None:
    after = after_credit(payment, charge)
    await earnings.count(connection, after)
    merchant_name = await notices.find_merchant_name(connection, payment)
    crash.point("amid_payment_credit")
    outcome = credit_outcome(payment, after, payer, charge, merchant_name)
    if not await outcomes.apply(connection, outcome):
        raise WalletLimitReached
    await notices.mail_receipt(connection, after)


def paid_charge(charge: Charge, paid: Money, surplus: Money) -> Charge:
    return msgspec.structs.replace(
        charge,
        status=ChargeStatus.PAID,
        paid_minor=paid.minor,
        credit_minor=surplus.minor,
        reason=None,
        error_code=None,
    )


def credit_outcome(
    before: Payment,
    after: Payment,
    payer: str,
    charge: Charge | None,
    merchant_name: str,
    fees: Sequence[Posting] = (),
) -> TransactionOutcome:
    """`charge` is as it is after the credit. `fees`: the provider's fee, if it is posted too."""
    detail = f"charge {charge.reference}" if charge else "sandbox"
    passed = movements.pass_on(after)
    return msgspec.structs.replace(
        _outcome(before, after, PaymentEvent.PAID, detail, merchant_name, charge),
        postings=[*postings.credit_postings(after, payer), *passed.postings, *fees],
        followers=passed.followers,
    )


def _outcome(
    before: Payment,
    after: Payment,
    event: PaymentEvent,
    detail: str | None,
    merchant_name: str,
    charge: Charge | None = None,
) -> TransactionOutcome:
    rows = [store.changed_payment(after)]
    if charge is not None:
        rows.append(store.changed_charge(charge))
    return TransactionOutcome(
        merchant_id=after.merchant_id,
        trx_id=after.trx_id,
        environment=after.environment,
        currency=after.currency,
        rows=rows,
        step=TimelineStep(event, before.status, after.status, detail),
        notice=notices.payment_notice(after, merchant_name),
        ended_jobs=[EndedJob(kind, after.trx_id) for kind in _ending_jobs(after)],
    )


def _ending_jobs(payment: Payment) -> tuple[JobKind, ...]:
    # The job of a charged way also learns from its outcome, so it ends by itself.
    return () if payment.charges_way else (EXPIRE, COMPLETE_IN_SANDBOX)


def after_credit(payment: Payment, charge: Charge | None) -> Payment:
    """Returns the payment as it is after the credit, with an id for its commission."""
    payment = _with_chosen_price(payment, charge)
    is_charged = not payment.is_sandbox and (
        payment.commission_minor > 0 or bool(payment.transaction_price.owed)
    )
    return msgspec.structs.replace(
        payment,
        status=NEXT[state_of(payment), PaymentEvent.PAID],
        error_code=None,
        credited_charge=charge.reference if charge else None,
        commission_trx_id=trx_ids.new(payment.merchant_id) if is_charged else None,
    )


def _with_chosen_price(payment: Payment, charge: Charge | None) -> Payment:
    """Returns the payment with the price of the way that the customer has chosen.

    What the customer pays does not depend on it.
    """
    price = payment.transaction_price
    index = None if charge is None else price.ways.get(charge.way_key)
    if index is None:
        return payment
    fee_minor, chosen = price.choices[index].fee_minor, price.choices[index].price
    kept = [tax for tax in price.taxes if tax.borne_by is TaxBearer.CUSTOMER]
    others = [tax for tax in chosen.taxes if tax.borne_by is not TaxBearer.CUSTOMER]
    chosen = msgspec.structs.replace(chosen, taxes=(*kept, *others))
    return msgspec.structs.replace(
        payment,
        commission_minor=fee_minor,
        tax_minor=chosen.added_minor(TaxBearer.MERCHANT),
        price=msgspec.json.encode(chosen).decode(),
    )


async def _fail(
    connection: Connection,
    payment: Payment,
    event: PaymentEvent,
    error_code: PaymentErrorCode | None,
    facts: Mapping[str, str] = timeline.NO_FACTS,
) -> bool:
    status = NEXT.get((state_of(payment), event))
    if status is None:
        return False
    after = msgspec.structs.replace(payment, status=status, error_code=error_code)
    merchant_name = await notices.find_merchant_name(connection, payment)
    outcome = _outcome(payment, after, event, error_code, merchant_name)
    assert outcome.step is not None
    step = msgspec.structs.replace(outcome.step, facts=facts)
    outcome = msgspec.structs.replace(outcome, step=step)
    is_written = await outcomes.apply(connection, outcome)
    assert is_written, "a failed payment moves no money"
    if payment.received_minor is not None:
        await wrong_amounts.return_credit(connection, after)
    return True


async def _charge_failed(
    connection: Connection, payment: Payment, charge: Charge, state: ChargeState
) -> None:
    if charge.has_arrived:
        detail = (
            "The provider first reported the charge as paid, now as failed. No money was moved."
        )
        await _open_case(connection, payment, charge, CaseKind.CONTRADICTION, detail)
        return
    if not charge.is_undecided:
        return
    if charge.is_uncertain:
        # The customer never saw this charge, so its failure is not a decline.
        await store.conclude_charge(
            connection, charge, ChargeStatus.FAILED, reason=state.reason or charge.reason
        )
        return
    decline = decline_of(state.reason)
    code = decline.error_code
    await store.conclude_charge(
        connection, charge, ChargeStatus.FAILED, reason=state.reason, error_code=code
    )
    await timeline.add(
        connection,
        payment.merchant_id,
        payment.trx_id,
        "charge_declined",
        before=payment.status,
        after=payment.status,
        detail=f"charge {charge.reference}: {code}. Checkout says: {decline.text}",
        facts={"shown": decline.text},
    )
    if payment.charges_way:
        await _fail(connection, payment, PaymentEvent.DECLINED, code)


async def _suspend(
    connection: Connection,
    payment: Payment,
    charge: Charge,
    paid: Money,
    kind: CaseKind,
    detail: str,
) -> None:
    """Posts unexpected money (such as a wrong amount) to the suspense account, and opens a case."""
    await store.conclude_charge(
        connection, charge, ChargeStatus.SUSPENSE, paid_minor=paid.minor, reason=detail
    )
    await postings.suspend(connection, payment, charge, paid)
    await _open_case(connection, payment, charge, kind, detail, paid)
    await timeline.add(
        connection,
        payment.merchant_id,
        payment.trx_id,
        "suspense",
        before=payment.status,
        after=payment.status,
        detail=f"charge {charge.reference}: {detail}",
    )
