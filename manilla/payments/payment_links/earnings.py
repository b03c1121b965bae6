"""Adds a payment to its link's earnings, in the transaction that credits the payment."""

from manilla.kit.database.connections import Connection
from manilla.payments.payment import Payment


class LinkAlreadyPaid(Exception):
    """The single-payment link was already paid. The caller must roll back the credit."""


async def count(connection: Connection, payment: Payment) -> None:
    """Adds a credited payment to its link's earnings, if it was created with a link.

    The SQL statement locks the link's row before the wallet is locked, so only the first of two
    payments through a single-payment link is credited.
    """
    if payment.link_id is None:
        return
    counted = await connection.value(
        """
        UPDATE payment_link SET paid_count = paid_count + 1, paid_minor = paid_minor + $3
         WHERE merchant_id = $1 AND id = $2 AND NOT (single_use AND paid_count > 0)
        RETURNING true""",
        *(payment.merchant_id, payment.link_id, payment.amount_minor),
    )
    if not counted:
        raise LinkAlreadyPaid
