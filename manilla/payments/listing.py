"""Lists payments, newest first by the time in their IDs."""

from typing import Any

import msgspec

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Fields
from manilla.kit.listing import (
    PAGE_ROWS,
    Moment,
    Number,
    Page,
    Query,
)
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, Tenant, whose, within
from manilla.payments import store
from manilla.payments.payment import Payment, PaymentErrorCode, PaymentStatus
from manilla.payments.store import PAYMENT_COLUMNS

FIELDS = Fields(
    Payment,
    commission="quote.commission",
    commission_fee="quote.commission",
    customer_pays="quote.customer_pays",
    customer_paid="quote.customer_pays",
)


class PaymentFilter(msgspec.Struct, frozen=True, kw_only=True):
    status: PaymentStatus | None = None
    error_code: PaymentErrorCode | None = None
    currency: str | None = None
    since: Moment | None = None
    until: Moment | None = None  # exclusive upper bound of the time
    min_minor: Number | None = None
    max_minor: Number | None = None
    # An id (of a payment, charge, refund or commission) or a full ref_trx is matched first.
    # Otherwise the search matches a part of the ref_trx, or of the customer's name or email
    # address.
    search: str | None = None


async def payments(
    db: Database,
    scope: Scope,
    wanted: PaymentFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Payment]:
    conditions = (
        within(scope)
        .add_given("status = {}", wanted.status)
        .add_given("error_code = {}", wanted.error_code)
        .add_given("currency = {}", wanted.currency)
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
    )
    steps = Query(
        "payment",
        PAYMENT_COLUMNS,
        trx_ids.CLOCK,
        whose(scope),
        conditions,
        wanted.since,
        wanted.until,
    )
    text = listing.searched(wanted.search)
    if text is not None:
        exact = await listing.exact(db, await _referred_to(db, steps, text), _payment)
        if exact:
            return Page(exact)
        steps = steps.narrowed(
            "position(lower({}) IN"
            " lower(concat_ws(E'\\n', ref_trx, customer_name, customer_email))) > 0",
            text,
        )
    return await listing.walk(db, steps, _payment, after, limit)


async def named(db: Database, tenant: Tenant, ref_trx: str) -> list[str]:
    """Returns the ids of the payment with this merchant reference and of its refunds."""
    records = await db.records(
        """
        WITH one AS (
            SELECT trx_id FROM payment
             WHERE merchant_id = $1 AND environment = $2 AND ref_trx = $3)
        SELECT trx_id FROM one
        UNION ALL
        SELECT r.trx_id FROM one
          JOIN refund r ON r.merchant_id = $1 AND r.payment_trx_id = one.trx_id""",
        *(tenant.merchant_id, tenant.environment, ref_trx),
    )
    return [record["trx_id"] for record in records]


async def _referred_to(db: Database, steps: Query, text: str) -> Query:
    """Returns the payments that an id or ref_trx refers to.

    An id identifies one payment; several merchants can use the same ref_trx.
    """
    payment = await store.payment_about(db, text)
    if payment is None:
        return steps.narrowed("ref_trx = {}", text)
    return steps.narrowed("merchant_id = {} AND trx_id = {}", payment.merchant_id, payment.trx_id)


def _payment(record: Any) -> Payment:
    return msgspec.convert(dict(record), Payment)
