"""The response of verify-payment, and the item of a payment in a list."""

from decimal import Decimal

import msgspec

from manilla.kit.clock import iso_of_sql
from manilla.kit.db import columns, only_if
from manilla.kit.money import amount_of
from manilla.ledger.reader import TransactionReader
from manilla.ledger.scope import Tenant
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.commission import QuotedAmounts
from manilla.payments.payment import Payment, PaymentErrorCode, PaymentStatus

EVENT = "payment"
PENDING = "Payment is still pending."
FAILED = "Payment failed or was canceled."

# Looked up once, because access to enum members is slow, and a page has many payments.
_SUCCESS, _PENDING = PaymentStatus.SUCCESS, PaymentStatus.PENDING


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


class VerifiedPayment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A successful payment. It has `amount_received` if the customer paid a wrong amount."""

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
    amount_received: Decimal | None = None


class UnfinishedPayment(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pending payment, or a failed one with its error code.

    It has `amount_received` if the customer has paid a part of the amount due.
    """

    status: str
    event: str
    trx_id: str
    ref_trx: str
    message: str
    error_code: str | None = None
    amount_received: Decimal | None = None


class ListedUnfinishedPayment(
    UnfinishedPayment, frozen=True, gc=False, kw_only=True, omit_defaults=True
):
    """A pending or failed payment in a list."""

    created_at: str


class ReportedPayment(msgspec.Struct, frozen=True, gc=False):
    """The columns of a payment that the response needs.

    A page has many payments, so their columns are not converted: enum values are plain strings,
    which compare equal to the enum's members. Columns that the response for an unfinished payment
    does not contain are null.
    """

    status: PaymentStatus
    trx_id: str
    ref_trx: str
    currency: str
    amount_minor: int
    commission_minor: int
    commission_bearer: CommissionBearer
    commission_trx_id: str | None
    customer_name: str | None
    customer_email: str | None
    description: str | None
    error_code: PaymentErrorCode | None
    received_minor: int | None
    created_at: str  # in PostgreSQL's text format
    updated_at: str


COLUMNS = columns(
    ReportedPayment,
    created_at="created_at::text",
    **only_if(f"status = '{_SUCCESS}' OR received_minor IS NOT NULL", "currency"),
    **only_if(
        f"status = '{_SUCCESS}'",
        *("amount_minor", "commission_minor", "commission_bearer"),
        *("commission_trx_id", "customer_name", "customer_email", "description"),
        updated_at="updated_at::text",
    ),
)


async def verify(
    reader: TransactionReader, tenant: Tenant, trx_id: str
) -> VerifiedPayment | UnfinishedPayment:
    found = await reader.read("payment", COLUMNS, tenant, trx_id)
    return describe(ReportedPayment(*found))


def describe(payment: ReportedPayment) -> VerifiedPayment | UnfinishedPayment:
    if payment.status == _SUCCESS:
        return _verified(payment)
    return UnfinishedPayment(*_unfinished(payment))


def describe_listed(payment: ReportedPayment) -> VerifiedPayment | ListedUnfinishedPayment:
    """Returns the response of verify-payment, with the time of creation."""
    if payment.status == _SUCCESS:
        return _verified(payment)
    created_at = iso_of_sql(payment.created_at)
    return ListedUnfinishedPayment(*_unfinished(payment), created_at=created_at)


def _verified(payment: ReportedPayment) -> VerifiedPayment:
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
        created_at=iso_of_sql(payment.created_at),
        updated_at=iso_of_sql(payment.updated_at),
        amount_received=_received(payment),
    )


def _unfinished(
    payment: ReportedPayment,
) -> tuple[str, str, str, str, str, str | None, Decimal | None]:
    """Returns the fields of UnfinishedPayment."""
    status = payment.status
    message = PENDING if status == _PENDING else FAILED
    about = status, EVENT, payment.trx_id, payment.ref_trx, message, payment.error_code
    return *about, _received(payment)


def _received(payment: ReportedPayment) -> Decimal | None:
    if payment.received_minor is None:
        return None
    return amount_of(payment.currency, payment.received_minor)


def describe_commission(payment: Payment | ReportedPayment) -> Commission:
    currency = payment.currency
    quote = QuotedAmounts(
        amount_of(currency, payment.amount_minor),
        amount_of(currency, payment.commission_minor),
        payment.commission_bearer,
    )
    paid, received = quote.customer_pays, quote.merchant_receives
    if payment.status != _SUCCESS:
        paid = received = amount_of(currency, 0)
    return Commission(
        base_amount=quote.amount,
        commission_fee=quote.commission,
        commission_bearer=quote.bearer,
        customer_paid=paid,
        merchant_received=received,
        commission_trx_id=payment.commission_trx_id,
    )
