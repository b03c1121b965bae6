"""Finds the charge that a dispute is about, by what a person enters."""

from manilla.kit.database.connections import Database
from manilla.ledger import trx_ids
from manilla.payments import store as payments
from manilla.payments.payment import Charge


async def charge_of(db: Database, text: str) -> Charge | None:
    """Returns the charge with this reference, or the charge that paid the payment with this id."""
    payment_id, dash, _ = text.partition("-")
    merchant_id = trx_ids.merchant_of(payment_id)
    if merchant_id is None:
        return None
    reference: str | None = text
    if not dash:
        payment = await payments.payment(db, merchant_id, payment_id)
        reference = None if payment is None else payment.credited_charge
    return None if reference is None else await payments.charge(db, merchant_id, reference)
