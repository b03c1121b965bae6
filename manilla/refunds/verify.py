"""The response of verify-refund."""

from decimal import Decimal

import msgspec

from manilla.kit import clock
from manilla.kit.db import Database
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import transactions
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.refunds import listing, store
from manilla.refunds.refund import NO_REASON, Refund, RefundStatus

# The stored status for each word of verify-refund.
STATUSES = {
    "pending": RefundStatus.PENDING,
    "success": RefundStatus.COMPLETED,
    "failed": RefundStatus.FAILED,
}
_WORDS = {status: word for word, status in STATUSES.items()}
MESSAGES = {
    RefundStatus.PENDING: "Refund is still pending.",
    RefundStatus.COMPLETED: "Refund completed.",
    RefundStatus.FAILED: "Refund failed. The amount was returned to the wallet.",
}


class VerifiedRefund(msgspec.Struct, frozen=True):
    status: str
    event: str
    trx_id: str
    ref_trx: str | None
    payment_trx_id: str
    amount: Decimal
    currency: str
    reason: str | None
    message: str
    created_at: str
    updated_at: str


async def verify(db: Database, caller: Caller, trx_id: str, ticket: RateTicket) -> VerifiedRefund:
    tenant = Tenant(caller.merchant_id, caller.environment)
    record = await transactions.find_counted(
        db, "refund", store.REFUND_COLUMNS, tenant, trx_id, ticket
    )
    return describe(listing.read(record))


def describe(refund: Refund) -> VerifiedRefund:
    assert refund.created_at is not None
    assert refund.updated_at is not None
    return VerifiedRefund(
        status=_WORDS[refund.status],
        event="refund",
        trx_id=refund.trx_id,
        ref_trx=refund.ref_trx,
        payment_trx_id=refund.payment_trx_id,
        amount=refund.amount.amount,
        currency=refund.currency,
        reason=None if refund.reason == NO_REASON else refund.reason,
        message=MESSAGES[refund.status],
        created_at=clock.iso(refund.created_at),
        updated_at=clock.iso(refund.updated_at),
    )
