"""The fields of a payment that merchants see: in verify-payment, in lists and in notifications.

A refund's notification also contains the payment's fields.
"""

import time
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from manilla.kit.clock import iso_of_sql
from manilla.kit.database.rows import columns, only_if
from manilla.kit.fields import api_field
from manilla.kit.money import Money, amount_of
from manilla.ledger.reader import TransactionReader
from manilla.ledger.scope import Tenant
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.commission import QuotedAmounts
from manilla.payments.payment import Payment, PaymentErrorCode, PaymentStatus
from manilla.prices import price as prices
from manilla.prices.fields import CommissionParts, Taxes, priced_fields

EVENT = "payment"
PENDING = "Payment is still pending."
FAILED = "Payment failed or was canceled."
REFUND_MESSAGES = {
    "pending": "Refund Pending",
    "completed": "Payment Refunded",
    "failed": "Refund Failed",
}
ERROR_CODES = [str(code) for code in PaymentErrorCode]

# These enum members are kept in variables, because accessing them through the enum is slow.
_SUCCESS, _PENDING = PaymentStatus.SUCCESS, PaymentStatus.PENDING


PaymentEvent = Annotated[str, api_field("The type of transaction.", enum=[EVENT])]
# A refund's source is None if the refund is paid from the wallet.
RefundSource = Annotated[
    str | None,
    api_field(
        "`customer_credit` if the refund returns a surplus or a partial payment, which was never "
        "in your wallet. Otherwise the field is omitted."
    ),
]


CustomerReference = Annotated[
    str | None, api_field("Your reference of the customer. Omitted if there is none.")
]
AccountId = Annotated[
    str | None,
    api_field("The customer's account that received the transfer. Omitted for other payments."),
]


class TransferPayer(msgspec.Struct, frozen=True):
    """Who sent the transfer, as far as the provider reports it."""

    name: Annotated[str | None, api_field("The name of the sender's account.")]
    bank: Annotated[str | None, api_field("The sender's bank.")]
    account_number: Annotated[str | None, api_field("The sender's account number.")]
    session_id: Annotated[str | None, api_field("The id of the transfer between the banks (NIP).")]


PayerField = Annotated[
    TransferPayer | None, api_field("Who sent the transfer. Omitted for other payments.")
]


class Commission(msgspec.Struct, frozen=True, omit_defaults=True):
    base_amount: Decimal
    commission_fee: Decimal
    commission_bearer: str
    customer_paid: Decimal
    merchant_received: Decimal
    commission_trx_id: str | None
    commission_parts: CommissionParts | UnsetType = UNSET
    taxes: Taxes = []


class Customer(msgspec.Struct, frozen=True):
    name: str | None
    email: str | None


class PaymentWay(msgspec.Struct, frozen=True):
    """The saved way to pay that the payment saved or charged."""

    id: str
    kind: str
    label: str
    expires: str | None


SavedWayField = Annotated[
    PaymentWay | None,
    api_field("The way to pay that the payment saved or charged. Otherwise the field is omitted."),
]


class VerifiedPayment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A successful payment. It has `amount_received` if the customer paid a wrong amount."""

    status: Annotated[str, api_field("The payment completed.", enum=["success"])]
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
    ref_trx: str = ""  # always sent; optional for clients, because earlier versions omitted it
    amount_received: Decimal | None = None
    customer_reference: CustomerReference = None
    account_id: AccountId = None
    payer: PayerField = None
    saved_way: SavedWayField = None


class UnfinishedPayment(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pending payment, or a failed payment with its error code.

    It has `amount_received` if the customer has paid only a part of the amount due.
    """

    status: Annotated[
        str,
        api_field(
            "`pending`: wait for the notification or verify later; `failed`: do not fulfill the"
            " order.",
            enum=["pending", "failed"],
        ),
    ]
    event: PaymentEvent
    trx_id: str
    ref_trx: str
    message: str
    error_code: Annotated[
        str | None,
        api_field("Why the payment failed. Absent if the payment is pending.", enum=ERROR_CODES),
    ] = None
    amount_received: Decimal | None = None


class ListedUnfinishedPayment(
    UnfinishedPayment, frozen=True, gc=False, kw_only=True, omit_defaults=True
):
    """A pending or failed payment in a list."""

    created_at: str


class ReportedPayment(msgspec.Struct, frozen=True, gc=False):
    """The payment columns that the response needs.

    A page has many payments, so their columns are not converted: enum values are plain strings,
    which compare equal to the enum's members. For an unfinished payment, the columns that its
    response omits are null.
    """

    status: PaymentStatus
    trx_id: str
    ref_trx: str
    currency: str
    amount_minor: int
    commission_minor: int
    customer_tax_minor: int
    price: str | None
    commission_bearer: CommissionBearer
    commission_trx_id: str | None
    customer_name: str | None
    customer_email: str | None
    description: str | None
    error_code: PaymentErrorCode | None
    received_minor: int | None
    created_at: str  # in PostgreSQL's text format
    updated_at: str
    customer_reference: str | None
    account_id: str | None
    payer: str | None
    saved_way: str | None


COLUMNS = columns(
    ReportedPayment,
    created_at="created_at::text",
    **only_if(f"status = '{_SUCCESS}' OR received_minor IS NOT NULL", "currency"),
    **only_if(
        f"status = '{_SUCCESS}'",
        *("amount_minor", "commission_minor", "customer_tax_minor", "price", "commission_bearer"),
        *("commission_trx_id", "customer_name", "customer_email", "description"),
        *("customer_reference", "account_id", "payer", "saved_way"),
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
    """Returns a payment as a list item: the verify-payment response with the creation time."""
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
        ref_trx=payment.ref_trx,
        amount_received=_received(payment),
        **_of_transfer(payment),
    )


def _of_transfer(payment: Payment | ReportedPayment) -> dict[str, Any]:
    """Returns the fields of a payment that belongs to a customer. Other payments omit them."""
    if payment.customer_reference is None:
        return {}
    payer = payment.payer
    return {
        "customer_reference": payment.customer_reference,
        "account_id": payment.account_id,
        "payer": None if payer is None else msgspec.json.decode(payer, type=TransferPayer),
        "saved_way": way_of(payment),
    }


def way_of(payment: Payment | ReportedPayment) -> PaymentWay | None:
    """Returns the saved way that the payment saved or charged, as it was then."""
    given = payment.saved_way
    return None if given is None else msgspec.json.decode(given, type=PaymentWay)


def _unfinished(
    payment: ReportedPayment,
) -> tuple[str, str, str, str, str, str | None, Decimal | None]:
    """Returns the response fields of a pending or failed payment."""
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
        amount_of(currency, payment.customer_tax_minor),
    )
    price = None if payment.price is None else prices.read(payment.price)
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
        **priced_fields(price, currency),
    )


class PaymentNoticeData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payment. It has `amount_received` if the customer paid a wrong amount."""

    ref_trx: str
    trx_id: str
    description: str | None
    ipn_url: str
    customer_name: str | None
    customer_email: str | None
    merchant_name: str
    amount: Decimal
    base_amount: Decimal
    currency_code: str
    environment: str
    is_sandbox: bool
    commission: Commission
    amount_received: Decimal | None = None
    customer_reference: CustomerReference = None
    account_id: AccountId = None
    payer: PayerField = None
    saved_way: SavedWayField = None


class RefundNoticeData(PaymentNoticeData, frozen=True, kw_only=True, omit_defaults=True):
    refund_amount: Decimal
    refund_trx_id: str
    refund_ref_trx: Annotated[
        str | None,
        api_field(
            "Your reference of the refund, or null if it was created in the dashboard or by the "
            "operator."
        ),
    ]
    refund_source: RefundSource = None


class PaymentNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    event: PaymentEvent
    data: PaymentNoticeData
    message: Annotated[
        str,
        api_field(
            "The status as a message for people.",
            enum=["Payment Completed", "Payment Failed", "Payment Canceled"],
        ),
    ]
    status: Annotated[
        str, api_field("The payment's status.", enum=["completed", "failed", "canceled"])
    ]
    timestamp: int
    error_code: Annotated[
        str | None,
        api_field("Why the payment failed. Absent if the payment completed.", enum=ERROR_CODES),
    ] = None


class RefundNotice(msgspec.Struct, frozen=True):
    event: Annotated[str, api_field("The type of transaction.", enum=["refund"])]
    data: RefundNoticeData
    message: Annotated[
        str, api_field("The status as a message for people.", enum=["Payment Refunded"])
    ]
    status: Annotated[str, api_field("The refund's status.", enum=["completed"])]
    timestamp: int


class LegacyNotice(msgspec.Struct, frozen=True):
    event: Annotated[str, api_field("The event.", enum=["payment.success", "payment.failed"])]
    trx_id: str
    amount: Decimal
    currency: str
    status: Annotated[str, api_field("The payment's status.", enum=["completed", "failed"])]


def describe_notice(payment: Payment, merchant_name: str) -> PaymentNotice | LegacyNotice:
    status = _status(payment)
    if payment.is_legacy:
        return _legacy(payment, "failed" if status == "canceled" else status)
    return PaymentNotice(
        EVENT,
        _data(payment, merchant_name),
        f"Payment {status.title()}",
        status,
        int(time.time()),
        error_code=payment.error_code,
    )


def describe_refund(
    payment: Payment,
    merchant_name: str,
    refund_trx_id: str,
    refund_ref_trx: str | None,
    amount: Money,
    status: str,
    source: str | None,
) -> RefundNotice:
    data = RefundNoticeData(
        **msgspec.structs.asdict(_data(payment, merchant_name)),
        refund_amount=amount.amount,
        refund_trx_id=refund_trx_id,
        refund_ref_trx=refund_ref_trx,
        refund_source=source,
    )
    return RefundNotice("refund", data, REFUND_MESSAGES[status], status, int(time.time()))


def _status(payment: Payment) -> str:
    if payment.error_code is PaymentErrorCode.PAYMENT_CANCELED:
        return "canceled"
    return "completed" if payment.status is PaymentStatus.SUCCESS else payment.status


def _data(payment: Payment, merchant_name: str) -> PaymentNoticeData:
    return PaymentNoticeData(
        ref_trx=payment.ref_trx,
        trx_id=payment.trx_id,
        description=payment.description,
        ipn_url=payment.ipn_url,
        customer_name=payment.customer_name,
        customer_email=payment.customer_email,
        merchant_name=merchant_name,
        amount=payment.amount.amount,
        base_amount=payment.amount.amount,
        currency_code=payment.currency,
        environment=payment.environment,
        is_sandbox=payment.is_sandbox,
        commission=describe_commission(payment),
        amount_received=None if payment.received_minor is None else payment.received.amount,
        **_of_transfer(payment),
    )


def _legacy(payment: Payment, status: str) -> LegacyNotice:
    return LegacyNotice(
        event="payment.success" if status == "completed" else f"payment.{status}",
        trx_id=payment.trx_id,
        amount=payment.amount.amount,
        currency=payment.currency,
        status=status,
    )
