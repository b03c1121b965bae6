"""The fields of a refund that merchants see in verify-refund and in lists.

`payments/fields.py` has the fields of a refund's notification.
"""

from decimal import Decimal
from typing import Annotated

import msgspec

from manilla.kit.clock import iso_of_sql
from manilla.kit.database.rows import columns
from manilla.kit.fields import api_field
from manilla.kit.money import Money
from manilla.ledger.posting import CUSTOMER_CREDIT
from manilla.ledger.reader import TransactionReader
from manilla.ledger.scope import Tenant
from manilla.payments.fields import RefundSource
from manilla.refunds.refund import NO_REASON, RefundStatus

# Maps each status in the verify-refund response to the stored status.
STATUSES = {
    "pending": RefundStatus.PENDING,
    "success": RefundStatus.COMPLETED,
    "failed": RefundStatus.FAILED,
}
WORDS = {status: word for word, status in STATUSES.items()}
MESSAGES = {
    RefundStatus.PENDING: "Refund is still pending.",
    RefundStatus.COMPLETED: "Refund completed.",
    RefundStatus.FAILED: "Refund failed. The amount was returned to the wallet.",
}
UNDER_REVIEW = "Refund failed. The operator reviews what happens with the money."


class VerifiedRefund(msgspec.Struct, frozen=True, omit_defaults=True):
    """A refund. It has a `source` if it is not paid from the wallet."""

    status: Annotated[
        str,
        api_field(
            "`pending`: not final yet; `success`: paid to the customer; `failed`: the amount was"
            " returned to the wallet.",
            enum=list(STATUSES),
        ),
    ]
    event: Annotated[str, api_field("The type of transaction.", enum=["refund"])]
    trx_id: str
    ref_trx: Annotated[
        str | None,
        api_field(
            "Your reference, or null if the refund was created in the dashboard or by the operator."
        ),
    ]
    payment_trx_id: str
    amount: Annotated[
        Decimal,
        api_field(
            "The amount that the customer gets back. In major units, exact to the currency's minor"
            " unit."
        ),
    ]
    currency: str
    reason: str | None
    message: str
    created_at: str
    updated_at: str
    source: RefundSource = None


class ReportedRefund(msgspec.Struct, frozen=True):
    """The refund columns that the response needs, unconverted as in `ReportedPayment`."""

    status: RefundStatus
    trx_id: str
    ref_trx: str | None
    payment_trx_id: str
    currency: str
    amount_minor: int
    reason: str
    created_at: str  # in PostgreSQL's text format
    updated_at: str
    customer_credit_minor: int


COLUMNS = columns(ReportedRefund, created_at="created_at::text", updated_at="updated_at::text")


async def verify(reader: TransactionReader, tenant: Tenant, trx_id: str) -> VerifiedRefund:
    found = await reader.read("refund", COLUMNS, tenant, trx_id)
    return describe(ReportedRefund(*found))


def describe(refund: ReportedRefund) -> VerifiedRefund:
    return VerifiedRefund(
        status=WORDS[refund.status],
        event="refund",
        trx_id=refund.trx_id,
        ref_trx=refund.ref_trx,
        payment_trx_id=refund.payment_trx_id,
        amount=Money(refund.currency, refund.amount_minor).amount,
        currency=refund.currency,
        reason=None if refund.reason == NO_REASON else refund.reason,
        message=_message(refund),
        created_at=iso_of_sql(refund.created_at),
        updated_at=iso_of_sql(refund.updated_at),
        source=CUSTOMER_CREDIT if refund.customer_credit_minor else None,
    )


def _message(refund: ReportedRefund) -> str:
    if refund.status == RefundStatus.FAILED and refund.customer_credit_minor:
        return UNDER_REVIEW
    return MESSAGES[refund.status]
