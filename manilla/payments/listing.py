"""Lists payments by the creation time in their ids, by default newest first."""

from enum import StrEnum

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import Selection, Totals, read_as
from manilla.ledger import transaction_lists, trx_ids
from manilla.ledger.scope import Scope, Tenant
from manilla.ledger.transaction_lists import IndexedMatch, TransactionFilter
from manilla.payments.payment import Payment, PaymentErrorCode, PaymentStatus
from manilla.payments.store import PAYMENT_COLUMNS

_METHOD = """
    EXISTS (SELECT FROM charge c
             WHERE c.merchant_id = payment.merchant_id AND c.trx_id = payment.trx_id
               AND c.method_code = {})"""
# SQL condition that matches payments with an open case, whose outcome is not final yet.
_UNDER_REVIEW = """
    EXISTS (SELECT FROM operator_case c
             WHERE c.merchant_id = payment.merchant_id AND c.trx_id = payment.trx_id
               AND c.status = 'open')"""
# The sum of completed refunds without commission. `refunded_minor` includes pending refunds too.
_PAID_BACK = """
    (SELECT coalesce(sum(r.amount_minor - r.commission_minor - r.customer_credit_minor), 0)::bigint
       FROM refund r
      WHERE r.merchant_id = payment.merchant_id AND r.payment_trx_id = payment.trx_id
        AND r.status = 'completed')"""
_COLUMNS = f"""
    {PAYMENT_COLUMNS}, {_UNDER_REVIEW} AS is_under_review,
    CASE WHEN refunded_minor = 0 THEN 0 ELSE {_PAID_BACK} END AS paid_back_minor"""
# SQL condition that matches a payment by its own id, or by the id of its refund or commission.
_ABOUT = """
    merchant_id = {} AND trx_id IN (
        SELECT {}
         UNION ALL SELECT payment_trx_id FROM refund WHERE merchant_id = {} AND trx_id = {}
         UNION ALL SELECT trx_id FROM payment WHERE merchant_id = {} AND commission_trx_id = {})"""
_PAID_INTO = """
    (merchant_id, trx_id) IN (SELECT merchant_id, trx_id FROM charge WHERE account_number = {})"""

FIELDS = Fields(
    Payment,
    commission="quote.commission",
    commission_fee="quote.commission",
    customer_pays="quote.customer_pays",
    customer_paid="quote.customer_pays",
)


class ListedStatus(StrEnum):
    """A payment's status on pages and in filters. It also reflects reviews and refunds."""

    PENDING = PaymentStatus.PENDING
    SUCCESS = PaymentStatus.SUCCESS
    FAILED = PaymentStatus.FAILED
    UNDER_REVIEW = "under_review"
    REFUNDED = "refunded"
    PARTLY_REFUNDED = "partly_refunded"


_CONDITIONS = {
    ListedStatus.UNDER_REVIEW: transaction_lists.UNDER_REVIEW,
    ListedStatus.REFUNDED: f"refunded_minor = amount_minor AND {_PAID_BACK} = amount_minor",
    ListedStatus.PARTLY_REFUNDED: (
        f"refunded_minor > 0 AND {_PAID_BACK} > 0 AND {_PAID_BACK} < amount_minor"
    ),
}


class ListedPayment(Payment, frozen=True, kw_only=True):
    is_under_review: bool
    paid_back_minor: int  # the part of the amount that completed refunds returned

    @property
    def state(self) -> ListedStatus:
        return listed_status(self, self.paid_back_minor, is_under_review=self.is_under_review)


def listed_status(payment: Payment, paid_back_minor: int, *, is_under_review: bool) -> ListedStatus:
    if is_under_review:
        return ListedStatus.UNDER_REVIEW
    if paid_back_minor:
        is_whole = paid_back_minor == payment.amount_minor
        return ListedStatus.REFUNDED if is_whole else ListedStatus.PARTLY_REFUNDED
    return ListedStatus(payment.status)


class PaymentFilter(TransactionFilter, frozen=True, kw_only=True):
    status: ListedStatus | None = None
    error_code: PaymentErrorCode | None = None
    method: str | None = None  # code of the deposit method that a charge used
    link_id: str | None = None  # id of the payment link that the customer used
    customer: str | None = None  # the merchant's reference of the customer
    # The search first compares complete ids, references, email addresses and account numbers.
    # If no payment matches, it compares parts of references, customer names and email addresses.
    search: str | None = None


async def payments(
    db: Reads,
    scope: Scope,
    wanted: PaymentFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[ListedPayment]:
    steps = await _query(db, scope, wanted)
    return await steps.page(db, read_as(ListedPayment), wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: PaymentFilter) -> Totals:
    return await (await _query(db, scope, wanted)).totals(db)


async def _query(db: Reads, scope: Scope, wanted: PaymentFilter) -> Selection:
    condition = None if wanted.status is None else _CONDITIONS.get(wanted.status)
    with_status = wanted if condition is None else msgspec.structs.replace(wanted, status=None)
    steps = transaction_lists.query("payment", _COLUMNS, scope, with_status)
    if condition is not None:
        steps = steps.narrowed(condition)
        if wanted.status is ListedStatus.UNDER_REVIEW:
            steps = msgspec.structs.replace(steps, index=None)
    if wanted.error_code is not None:
        steps = steps.narrowed("error_code = {}", wanted.error_code)
    if wanted.method is not None:
        steps = steps.narrowed(_METHOD, wanted.method)
    if wanted.link_id is not None:
        steps = steps.narrowed("link_id = {}", wanted.link_id)
    if wanted.customer is not None:
        steps = steps.narrowed("customer_reference = {}", wanted.customer)
    text = listing.search_text(wanted.search)
    if text is None:
        return steps
    partly = steps.narrowed(
        "position(lower({}) IN"
        " lower(concat_ws(E'\\n', ref_trx, customer_name, customer_email))) > 0",
        text,
    )
    return await transaction_lists.first_match(db, steps, matches(scope, text), partly)


def matches(scope: Scope, text: str) -> list[IndexedMatch]:
    """Returns SQL conditions, supported by indexes, for payments with exactly this value."""
    trx_id = text.partition("-")[0]
    merchant_id = trx_ids.merchant_of(trx_id)
    if merchant_id is not None:
        key = merchant_id, trx_id
        return [IndexedMatch("Transaction ID", _ABOUT, (merchant_id, trx_id, *key, *key))]
    found = [transaction_lists.by_reference(scope, text)]
    if "@" in text:
        found.append(IndexedMatch("Email", "lower(customer_email) = lower({})", (text,), True))
    if text.isascii() and text.isdigit():
        found.append(IndexedMatch("Account number", _PAID_INTO, (text,)))
    return found


async def ids_of_reference(db: Reads, tenant: Tenant, ref_trx: str) -> list[str]:
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
