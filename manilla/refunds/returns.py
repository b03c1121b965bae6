"""Refunds of customer credit: a surplus, or a part of an amount that was never completed.

The merchant's rules for wrong amounts order them, and a job starts them. From then on they are
refunds like all others, except that customer credit is debited and not the wallet.
"""

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.jobs import Job
from manilla.merchants import outgoing
from manilla.payments import store as payments
from manilla.payments.payment import Charge, Payment, PaymentStatus
from manilla.refunds import initiate
from manilla.refunds.books import RefundBlocked
from manilla.refunds.refund import Refund

SURPLUS_REASON = "Paid more than the amount due"
PART_REASON = "Paid less than the amount due"


async def start(db: Database, job: Job) -> float | None:
    """Starts the refund of a charge's customer credit. Waits while the merchant cannot refund."""
    try:
        async with db.transaction() as connection:
            await _start(connection, job.merchant_id, job.subject)
    except RefundBlocked:
        return outgoing.WAIT_SECONDS
    return None


async def _start(connection: Connection, merchant_id: int, reference: str) -> None:
    found = await payments.charge(connection, merchant_id, reference)
    assert found is not None
    payment = await payments.payment(connection, merchant_id, found.trx_id, lock=True)
    assert payment is not None
    # Read the charge again under the payment's lock: another worker may have started the refund.
    charge = await payments.charge(connection, merchant_id, reference)
    assert charge is not None
    if charge.credit_minor == 0 or payment.status is PaymentStatus.PENDING:
        return
    await payments.set_credit(connection, charge, 0)
    is_new = await initiate.write(connection, payment, _refund(payment, charge))
    assert is_new, "only refunds with a reference of the merchant can conflict"


def _refund(payment: Payment, charge: Charge) -> Refund:
    is_paid = payment.status is PaymentStatus.SUCCESS
    reason = SURPLUS_REASON if is_paid else PART_REASON
    refund = initiate.refund_of(payment, charge, charge.credit, reason)
    return msgspec.structs.replace(refund, customer_credit_minor=charge.credit_minor)
