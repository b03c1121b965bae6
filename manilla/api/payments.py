"""Payment endpoints of API version 1 and of the legacy API."""

from collections.abc import Collection
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import (
    Amount,
    CallbackAddress,
    CurrencyCode,
    Email,
    Lines,
    Reference,
    WebAddress,
    money_of,
)
from manilla.api.lists import TransactionPages, TransactionQuery, items
from manilla.api.refusals import InvalidAmount
from manilla.api.request import read_repeat_key, read_scenario
from manilla.customers import store as customers
from manilla.customers.customer import CustomerDisabled, CustomerNotFound
from manilla.kit.errors import Refusal
from manilla.kit.fields import api_field
from manilla.kit.money import MoneyError
from manilla.kit.texts import Line
from manilla.ledger.transactions import (
    CurrencyNotEnabled,
    DuplicateReference,
    TransactionNotFound,
)
from manilla.merchants.rights import Right
from manilla.payments import cancellation, commission, fields, initiate
from manilla.payments.cancellation import CanceledPayment, PaymentAlreadyPaid
from manilla.payments.eligibility import read_keywords
from manilla.payments.fields import ReportedPayment
from manilla.payments.initiate import PaymentOrder, PaymentSession
from manilla.payments.payment import PaymentStatus
from manilla.services import Services
from manilla.splits.planning import GivenSplit
from manilla.splits.rule import SplitInvalid

CustomerName = Annotated[Line, Meta(max_length=100)]
# The legacy API accepts any text, because legacy clients send values that are not emails.
LegacyEmail = Annotated[Line, Meta(max_length=100)]
Keywords = Annotated[
    str | list[str] | None,
    Meta(
        description="Keywords that filter the merchant's gateways: parts of names or codes, "
        "case-insensitive, as a list or comma-separated."
    ),
]


def amount_problem(amount: Decimal | None, currency: str | None) -> str | None:
    """Returns the error message for a payment's amount, or None if it is valid or missing."""
    if amount is None:
        return None
    try:
        return commission.amount_problem(money_of(amount, currency))
    except MoneyError as error:
        return commission.TOO_SMALL if amount < commission.MINIMUM else str(error)


class PaymentFields(Struct, frozen=True, kw_only=True):
    """The payment fields that API version 1 and the legacy API share."""

    payment_amount: Amount
    currency_code: CurrencyCode
    ref_trx: Reference
    ipn_url: CallbackAddress
    description: Lines | None = None
    customer_name: CustomerName | None = None
    customer_email: Email | None = None
    allow_payment_methods: Keywords = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        problem = amount_problem(values.get("payment_amount"), values.get("currency_code"))
        return {"payment_amount": problem} if problem else {}


SPLIT = "How the payment is divided: the id of a split, or a rule."


class PaymentRequest(PaymentFields, frozen=True, kw_only=True):
    split: Annotated[GivenSplit | None, api_field(SPLIT)] = None
    success_redirect: WebAddress
    cancel_redirect: WebAddress
    save_for: Reference | None = None  # the customer whose card checkout offers to save


class LegacyPaymentRequest(PaymentFields, frozen=True, kw_only=True):
    customer_email: LegacyEmail | None = None
    success_redirect: WebAddress | None = None
    cancel_redirect: WebAddress | None = None


class PaymentsQuery(TransactionQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["pending", "success", "failed"] | None = None


class PaymentList(Struct, frozen=True):
    data: Annotated[list[Any], items(fields.VerifiedPayment, fields.ListedUnfinishedPayment)]
    next_cursor: str | None


def endpoints(services: Services) -> list[Endpoint]:
    initiation, reader = services.payments, services.reader
    payments = TransactionPages(
        services,
        LIST,
        table="payment",
        columns=fields.COLUMNS,
        statuses={status: (status,) for status in PaymentStatus},
    )

    async def initiate_payment(call: Call) -> Any:
        order = _order(call, INITIATE)
        if call.body.save_for is not None:
            order = await _saving(services, call, order)
        return await initiation.initiate(call.caller, order, call.ticket)

    async def initiate_legacy(call: Call) -> Any:
        order = _order(call, INITIATE_LEGACY)
        return await initiation.initiate(call.caller, order, call.ticket)

    async def verify_payment(call: Call) -> Any:
        return await fields.verify(reader, call.tenant, call.parameter)

    async def cancel_payment(call: Call) -> CanceledPayment:
        db, checkout = services.db, services.checkout
        return await cancellation.cancel(db, reader, checkout, call.tenant, call.parameter)

    async def list_payments(call: Call) -> PaymentList:
        rows, cursor = await payments.page(call)
        found = [fields.describe_listed(ReportedPayment(*row)) for row in rows]
        return PaymentList(found, cursor)

    return [
        Endpoint(
            method="POST",
            path=INITIATE,
            summary="Initiate a payment",
            description="Creates a hosted checkout session. Send the customer to `payment_url`.",
            right=Right.PAYMENTS,
            answers=(PaymentSession,),
            use_case=initiate_payment,
            body=PaymentRequest,
            refusals=(*REFUSALS, CustomerNotFound, CustomerDisabled),
            counts=True,
            is_repeatable=True,
            creates_transaction=True,
        ),
        Endpoint(
            method="GET",
            path="/api/v1/verify-payment/{trxId}",
            summary="Verify a payment",
            description="Returns a payment's status. Use the environment in which it was created.",
            right=Right.READ,
            answers=(fields.VerifiedPayment, fields.UnfinishedPayment),
            use_case=verify_payment,
            refusals=(TransactionNotFound,),
        ),
        Endpoint(
            method="POST",
            path=LIST + "/{trxId}/cancel",
            operation_id="cancelPayment",
            summary="Cancel a payment",
            description="Ends the checkout link of an unpaid payment, for example because the cart "
            "has changed. Asks the provider first whether the customer has paid. Safe to repeat. "
            "`late_money` shows whether money can still arrive: a late payment succeeds after all.",
            right=Right.PAYMENTS,
            answers=(CanceledPayment,),
            use_case=cancel_payment,
            refusals=(TransactionNotFound, PaymentAlreadyPaid),
        ),
        Endpoint(
            method="GET",
            path=LIST,
            operation_id="listPayments",
            summary="List payments",
            description="Lists your payments, newest first, with the fields of verify-payment.",
            right=Right.READ,
            answers=(PaymentList,),
            use_case=list_payments,
            query=PaymentsQuery,
        ),
        Endpoint(
            method="POST",
            path=INITIATE_LEGACY,
            summary="Initiate a payment (legacy API)",
            description="Works like version 1, but unsigned. Send the API key as a bearer token.",
            right=Right.PAYMENTS,
            answers=(PaymentSession,),
            use_case=initiate_legacy,
            body=LegacyPaymentRequest,
            refusals=REFUSALS,
            counts=True,
            is_repeatable=True,
            creates_transaction=True,
            is_signed=False,
        ),
    ]


INITIATE, INITIATE_LEGACY = "/api/v1/initiate-payment", "/api/initiate-payment"
LIST = "/api/v1/payments"
REFUSALS: tuple[type[Refusal], ...] = (
    InvalidAmount,
    CurrencyNotEnabled,
    initiate.PaymentLimitExceeded,
    initiate.WalletNotAvailable,
    initiate.CommissionNotCovered,
    DuplicateReference,
    SplitInvalid,
)


def _order(call: Call, endpoint: str) -> PaymentOrder:
    body = msgspec.structs.asdict(call.body)
    body.pop("save_for", None)
    body["allow_payment_methods"] = read_keywords(call.body.allow_payment_methods)
    return PaymentOrder(
        **body,
        is_legacy=endpoint == INITIATE_LEGACY,
        scenario=read_scenario(call),
        repeat_key=read_repeat_key(call.headers, endpoint, call.raw_body),
    )


async def _saving(services: Services, call: Call, order: PaymentOrder) -> PaymentOrder:
    """Returns the order of a payment on whose checkout the customer can save a card."""
    customer = await customers.of_tenant(services.db, call.tenant, call.body.save_for)
    if customer.disabled_at is not None:
        raise CustomerDisabled
    return msgspec.structs.replace(
        order,
        customer_reference=customer.reference,
        saves_way=True,
        customer_name=order.customer_name or customer.name,
        customer_email=order.customer_email or customer.email,
    )
