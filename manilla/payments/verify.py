"""The response of verify-payment."""

from decimal import Decimal

import msgspec

from manilla.kit import clock
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import transactions
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.payments import store
from manilla.payments.payment import Payment, PaymentStatus

PENDING = "Payment is still pending."
FAILED = "Payment failed or was canceled."


class Commission(msgspec.Struct, frozen=True):
    base_amount: Decimal
    commission_fee: Decimal
    commission_bearer: str
    customer_paid: Decimal
    merchant_received: Decimal
    commission_trx_id: str | None


class Customer(msgspec.Struct, frozen=True):
    name: str | None
    email: str | None


class VerifiedPayment(msgspec.Struct, frozen=True):
    status: str
    trx_id: str
    amount: Decimal
    fee: Decimal
    currency: str
    net_amount: Decimal
    commission: Commission
    customer: Customer
    description: str | None
    created_at: str
    updated_at: str


class UnfinishedPayment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pending payment, or a failed one with its error code."""

    status: str
    event: str
    trx_id: str
    ref_trx: str
    message: str
    error_code: str | None = None


class ListedUnfinishedPayment(UnfinishedPayment, frozen=True, kw_only=True, omit_defaults=True):
    """A pending or failed payment in a list."""

    created_at: str


async def verify(
    db: Database, caller: Caller, trx_id: str, ticket: RateTicket
) -> VerifiedPayment | UnfinishedPayment:
    tenant = Tenant(caller.merchant_id, caller.environment)
    record = await transactions.find_counted(
        db, "payment", store.PAYMENT_COLUMNS, tenant, trx_id, ticket
    )
    return describe(msgspec.convert(dict(record), Payment))


def describe(payment: Payment) -> VerifiedPayment | UnfinishedPayment:
    if payment.status is not PaymentStatus.SUCCESS:
        return UnfinishedPayment(
            status=payment.status,
            event="payment",
            trx_id=payment.trx_id,
            ref_trx=payment.ref_trx,
            message=PENDING if payment.status is PaymentStatus.PENDING else FAILED,
            error_code=payment.error_code,
        )
    commission = describe_commission(payment)
    return VerifiedPayment(
        status=payment.status,
        trx_id=payment.trx_id,
        amount=commission.base_amount,
        fee=commission.commission_fee,
        currency=payment.currency,
        net_amount=commission.merchant_received,
        commission=commission,
        customer=Customer(payment.customer_name, payment.customer_email),
        description=payment.description,
        created_at=clock.iso(payment.created_at),
        updated_at=clock.iso(payment.updated_at),
    )


def describe_listed(payment: Payment) -> VerifiedPayment | ListedUnfinishedPayment:
    """Returns the response of verify-payment, with the time of creation."""
    answer = describe(payment)
    if isinstance(answer, VerifiedPayment):
        return answer
    fields = msgspec.structs.asdict(answer)
    return ListedUnfinishedPayment(**fields, created_at=clock.iso(payment.created_at))


def describe_commission(payment: Payment) -> Commission:
    quote, is_paid = payment.quote, payment.status is PaymentStatus.SUCCESS
    nothing = Money(payment.currency, 0)
    paid, received = (quote.customer_pays, quote.merchant_receives) if is_paid else (nothing,) * 2
    return Commission(
        base_amount=quote.amount.amount,
        commission_fee=quote.commission.amount,
        commission_bearer=quote.bearer,
        customer_paid=paid.amount,
        merchant_received=received.amount,
        commission_trx_id=payment.commission_trx_id,
    )
