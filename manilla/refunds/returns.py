"""Refunds of customer credit: a surplus, or a partial payment that was never completed.

The merchant's rules for wrong amounts require these refunds, and a job starts them. They are then
processed like other refunds, except that customer credit is debited instead of the wallet.
"""

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.jobs import Job
from manilla.ledger import trx_ids
from manilla.merchants import outgoing
from manilla.payments import store as payments
from manilla.payments.payment import Charge, Payment, PaymentStatus
from manilla.refunds import initiate
from manilla.refunds.initiate import PaymentNotFound
from manilla.refunds.postings import RefundBlocked, RefundRefused
from manilla.refunds.refund import Refund

SURPLUS_REASON = "Paid more than the amount due"
PART_REASON = "Paid less than the amount due"


class NothingToReturn(RefundRefused):
    message = "This payment has no customer credit to return to the customer."


async def start(db: Database, job: Job) -> float | None:
    """Starts the refund of a charge's customer credit. Waits while the merchant cannot refund."""
    found = await payments.charge(db, job.merchant_id, job.subject)
    assert found is not None
    try:
        async with db.transaction() as connection:
            payment = await _locked(connection, job.merchant_id, found.trx_id)
            # Read the charge under the payment's lock: its refund may already have been started.
            charge = await payments.charge(connection, job.merchant_id, job.subject)
            assert charge is not None
            if _is_returnable(payment, charge):
                await _start(connection, payment, charge, on_behalf=False)
    except RefundBlocked:
        return outgoing.WAIT_SECONDS
    return None


async def start_on_behalf(db: Database, trx_id: str) -> list[Refund]:
    """Starts all refunds of a payment's customer credit, whatever the merchant's status.

    The customer is entitled to the money even after the merchant was disabled.
    """
    merchant_id = trx_ids.merchant_of(trx_id)
    if merchant_id is None:
        raise PaymentNotFound(f"There is no payment {trx_id}.")
    async with db.transaction() as connection:
        payment = await _locked(connection, merchant_id, trx_id)
        charges = await payments.charges(connection, merchant_id, trx_id)
        started = [
            await _start(connection, payment, charge, on_behalf=True)
            for charge in charges
            if _is_returnable(payment, charge)
        ]
    if not started:
        raise NothingToReturn
    return started


async def _locked(connection: Connection, merchant_id: int, trx_id: str) -> Payment:
    payment = await payments.payment(connection, merchant_id, trx_id, lock=True)
    if payment is None:
        raise PaymentNotFound(f"There is no payment {trx_id}.")
    return payment


def _is_returnable(payment: Payment, charge: Charge) -> bool:
    return charge.credit_minor > 0 and payment.status is not PaymentStatus.PENDING


async def _start(
    connection: Connection, payment: Payment, charge: Charge, *, on_behalf: bool
) -> Refund:
    is_paid = payment.status is PaymentStatus.SUCCESS
    reason = SURPLUS_REASON if is_paid else PART_REASON
    refund = msgspec.structs.replace(
        # A sandbox charge has no provider that could refund it.
        initiate.refund_of(payment, None if payment.is_sandbox else charge, charge.credit, reason),
        customer_credit_minor=charge.credit_minor,
        on_behalf=on_behalf,
    )
    await payments.set_credit(connection, charge, 0)
    is_new = await initiate.write(connection, payment, refund)
    assert is_new, "only refunds with a reference of the merchant can conflict"
    return refund
