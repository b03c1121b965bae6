"""The fields of a payout that merchants see: in verify-payout, in lists and in notifications."""

import time
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from manilla.kit.clock import iso_of_sql
from manilla.kit.database.rows import columns, only_if
from manilla.kit.fields import api_field
from manilla.kit.money import amount_of
from manilla.ledger.reader import TransactionReader
from manilla.ledger.scope import Tenant
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.prices import price as prices
from manilla.prices.fields import CommissionParts, Taxes, priced_fields
from manilla.transfers.refusals import PayoutErrorCode

EVENT = "payout"
PENDING = "Payout is still pending."
FAILED = "Payout failed or was canceled."
MESSAGES = {
    PayoutStatus.PENDING: "Payout Pending",
    PayoutStatus.COMPLETED: "Payout Completed",
    PayoutStatus.FAILED: "Payout Failed",
    PayoutStatus.CANCELED: "Payout Canceled",
}
REVERSED = "Payout Reversed"
ERROR_CODES = [str(code) for code in PayoutErrorCode]

# These enum members are kept in variables, because accessing them through the enum is slow.
_COMPLETED, _PENDING = PayoutStatus.COMPLETED, PayoutStatus.PENDING


PayoutEvent = Annotated[str, api_field("The type of transaction.", enum=[EVENT])]


class DeliveredPayout(msgspec.Struct, frozen=True, omit_defaults=True):
    status: Annotated[str, api_field("The payout was delivered.", enum=["success"])]
    event: PayoutEvent
    trx_id: str
    ref_trx: str
    amount: Decimal
    fee: Decimal
    currency: str
    net_amount: Decimal
    description: str | None
    session_id: Annotated[
        str | None,
        api_field(
            "The NIP session id of the interbank transfer, with which banks trace the transfer, or "
            "null if the provider has not reported a session id.",
            examples=["000014261115064820123456789012"],
        ),
    ]
    created_at: str
    updated_at: str
    commission_parts: CommissionParts | UnsetType = UNSET
    taxes: Taxes = []


class UndeliveredPayout(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pending payout, or a failed payout with its error code."""

    status: Annotated[
        str,
        api_field(
            "`pending`: not final yet; `failed`: the amount was returned to the wallet.",
            enum=["pending", "failed"],
        ),
    ]
    event: PayoutEvent
    trx_id: str
    ref_trx: str
    message: str
    error_code: Annotated[
        str | None,
        api_field("Why the payout failed. Absent if the payout is pending.", enum=ERROR_CODES),
    ] = None


class ListedUndeliveredPayout(
    UndeliveredPayout, frozen=True, gc=False, kw_only=True, omit_defaults=True
):
    """A pending or failed payout in a list."""

    created_at: str


class ReportedPayout(msgspec.Struct, frozen=True, gc=False):
    """The payout columns that the response needs, selected like those of `ReportedPayment`."""

    status: PayoutStatus
    trx_id: str
    ref_trx: str
    currency: str
    amount_minor: int
    fee_minor: int
    price: str | None
    description: str | None
    session_id: str | None
    error_code: PayoutErrorCode | None
    guidance: str | None
    created_at: str  # in PostgreSQL's text format
    updated_at: str


COLUMNS = columns(
    ReportedPayout,
    created_at="created_at::text",
    **only_if(
        f"status = '{_COMPLETED}'",
        *("currency", "amount_minor", "fee_minor", "price", "description", "session_id"),
        updated_at="updated_at::text",
    ),
)


async def verify(
    reader: TransactionReader, tenant: Tenant, trx_id: str
) -> DeliveredPayout | UndeliveredPayout:
    found = await reader.read("payout", COLUMNS, tenant, trx_id)
    return describe(ReportedPayout(*found))


def describe(payout: ReportedPayout) -> DeliveredPayout | UndeliveredPayout:
    if payout.status == _COMPLETED:
        return _delivered(payout)
    return UndeliveredPayout(*_undelivered(payout))


def describe_listed(payout: ReportedPayout) -> DeliveredPayout | ListedUndeliveredPayout:
    """Returns a payout as a list item: the verify-payout response with the creation time."""
    if payout.status == _COMPLETED:
        return _delivered(payout)
    created_at = iso_of_sql(payout.created_at)
    return ListedUndeliveredPayout(*_undelivered(payout), created_at=created_at)


def _delivered(payout: ReportedPayout) -> DeliveredPayout:
    amount = amount_of(payout.currency, payout.amount_minor)
    return DeliveredPayout(
        status="success",
        event=EVENT,
        trx_id=payout.trx_id,
        ref_trx=payout.ref_trx,
        amount=amount,
        fee=amount_of(payout.currency, payout.fee_minor),
        currency=payout.currency,
        net_amount=amount,
        description=payout.description,
        session_id=payout.session_id,
        created_at=iso_of_sql(payout.created_at),
        updated_at=iso_of_sql(payout.updated_at),
        **_priced(payout),
    )


def _priced(payout: Payout | ReportedPayout) -> dict[str, Any]:
    return {} if payout.price is None else priced_fields(prices.read(payout.price), payout.currency)


def _undelivered(payout: ReportedPayout) -> tuple[str, str, str, str, str, str | None]:
    """Returns the response fields of a pending or failed payout."""
    status, message = "pending", PENDING
    if payout.status != _PENDING:
        status, message = "failed", f"{FAILED} {payout.guidance or ''}".rstrip()
    return status, EVENT, payout.trx_id, payout.ref_trx, message, payout.error_code


class PayoutNoticeData(msgspec.Struct, frozen=True, omit_defaults=True):
    ref_trx: str
    trx_id: str
    ipn_url: str
    environment: str
    is_sandbox: bool
    api_merchant_payout: bool
    payout_amount: Decimal
    currency_code: str
    withdraw_method_id: int
    withdraw_method: str
    session_id: Annotated[
        str | UnsetType | None,
        api_field(
            "The NIP session id of the interbank transfer, or null if the provider has not reported"
            " a session id. Absent if the payout was not delivered.",
            examples=["000014261115064820123456789012"],
        ),
    ] = UNSET
    refunded_amount: Decimal | None = None
    error_code: Annotated[
        str | None,
        api_field(
            "The same as `error_code` outside `data`. Absent if the payout completed.",
            enum=ERROR_CODES,
        ),
    ] = None
    commission_parts: CommissionParts | UnsetType = UNSET
    taxes: Taxes = []


class PayoutNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The notification about a payout.

    If the payout was not delivered, `data` also contains `refunded_amount` and `error_code`.
    """

    event: PayoutEvent
    data: PayoutNoticeData
    message: Annotated[
        str,
        api_field(
            "The status as a message for people.",
            enum=["Payout Completed", "Payout Failed", "Payout Canceled", "Payout Reversed"],
        ),
    ]
    status: Annotated[
        str,
        api_field(
            "The payout's status. After a reversal, `failed` follows `completed`.",
            enum=["completed", "failed", "canceled"],
        ),
    ]
    timestamp: int
    refunded_amount: Decimal | None = None
    error_code: Annotated[
        str | None,
        api_field("Why the payout failed. Absent if the payout completed.", enum=ERROR_CODES),
    ] = None


def describe_notice(payout: Payout) -> PayoutNotice:
    is_completed = payout.status is PayoutStatus.COMPLETED
    has_ended = payout.status in (PayoutStatus.FAILED, PayoutStatus.CANCELED)
    refunded_amount = payout.refundable.amount if has_ended else None
    error_code = payout.error_code if has_ended else None
    return PayoutNotice(
        event=EVENT,
        data=PayoutNoticeData(
            ref_trx=payout.ref_trx,
            trx_id=payout.trx_id,
            ipn_url=payout.ipn_url,
            environment=payout.environment,
            is_sandbox=payout.is_sandbox,
            api_merchant_payout=payout.is_by_api,
            payout_amount=payout.amount.amount,
            currency_code=payout.currency,
            withdraw_method_id=payout.method_id,
            withdraw_method=payout.method_name,
            session_id=payout.session_id if is_completed else UNSET,
            refunded_amount=refunded_amount,
            error_code=error_code,
            **_priced(payout),
        ),
        message=REVERSED if payout.is_reversed else MESSAGES[payout.status],
        status=payout.status,
        timestamp=int(time.time()),
        refunded_amount=refunded_amount,
        error_code=error_code,
    )
