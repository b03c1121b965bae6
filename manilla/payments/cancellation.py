"""Cancels a payment for the merchant, and reports whether its money can still arrive."""

from enum import StrEnum
from typing import Annotated

from manilla.kit import time_limits
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import common_fields
from manilla.kit.errors import Refusal
from manilla.kit.fields import api_field
from manilla.ledger import timeline
from manilla.ledger.reader import TransactionReader
from manilla.ledger.scope import Tenant
from manilla.payments import fields, store, suspense
from manilla.payments.charges import CUSTOMER_SENT
from manilla.payments.checkout import Checkout
from manilla.payments.fields import UnfinishedPayment, VerifiedPayment
from manilla.payments.payment import BY_MERCHANT, ChargeStatus
from manilla.providers.wire import limit_calls


class LateMoney(StrEnum):
    """What is known about money that can arrive after a payment was canceled."""

    NONE = "none"  # nobody was shown how to pay
    POSSIBLE = "possible"  # the customer has an account number or is on a provider's page
    # The customer says that the money was sent, or a charge of a saved way was sent.
    REPORTED = "reported"
    HELD = "held"  # money has arrived, and an administrator is reviewing it


class PaymentAlreadyPaid(Refusal):
    status, code = 409, "PAYMENT_ALREADY_PAID"
    message = "The customer has paid. Fulfill the order or refund the payment."


class CanceledPayment(UnfinishedPayment, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A payment that can no longer be paid on checkout."""

    late_money: Annotated[
        str,
        api_field(
            "Whether money can still arrive, so that the payment becomes `success`. `none`: nobody "
            "was shown how to pay. `possible`: the customer has an account number or is on a "
            "provider's page. `reported`: the customer says that the money was sent, or your "
            "charge of a saved way was sent. `held`: money has arrived, and an administrator is "
            "reviewing it.",
            enum=[str(each) for each in LateMoney],
        ),
    ]


async def cancel(
    db: Database, reader: TransactionReader, checkout: Checkout, tenant: Tenant, trx_id: str
) -> CanceledPayment:
    """Cancels a pending payment. A payment that has failed already keeps its reason."""
    before = await fields.verify(reader, tenant, trx_id)
    if isinstance(before, VerifiedPayment):
        raise PaymentAlreadyPaid
    with limit_calls(time_limits.current.cancel_seconds):
        await checkout.cancel(trx_id, BY_MERCHANT)
    late = await _late_money(db, tenant.merchant_id, trx_id)
    # Read the payment last: money that arrives in the meantime makes it successful.
    payment = await fields.verify(reader, tenant, trx_id)
    if isinstance(payment, VerifiedPayment):
        raise PaymentAlreadyPaid
    return CanceledPayment(**common_fields(UnfinishedPayment, payment), late_money=late)


async def _late_money(db: Database, merchant_id: int, trx_id: str) -> LateMoney:
    charges = await store.charges(db, merchant_id, trx_id)
    suspended = [charge for charge in charges if charge.status is ChargeStatus.SUSPENSE]
    for charge in suspended:
        if await suspense.release_action(db, merchant_id, charge.reference) is None:
            return LateMoney.HELD
    if not any(charge.is_undecided for charge in charges):
        return LateMoney.NONE
    payment = await store.payment(db, merchant_id, trx_id)
    steps = await timeline.steps(db, merchant_id, trx_id)
    is_charged = payment is not None and payment.charges_way
    is_reported = is_charged or any(step.event == CUSTOMER_SENT for step in steps)
    return LateMoney.REPORTED if is_reported else LateMoney.POSSIBLE
