"""Lists disputes by the creation time in their ids, by what ends first, or in another order."""

from datetime import datetime

import msgspec

from manilla.disputes.dispute import DISPUTE_IDS, Dispute, DisputeStatus
from manilla.disputes.store import DISPUTE_COLUMNS
from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Moment, Page
from manilla.kit.listing.sorting import KeyIndex, Selection, SortKeys, SortOrder, Totals, read_as
from manilla.ledger import transaction_lists, trx_ids
from manilla.ledger.scope import Scope, collation_of, merchant_condition, scope_conditions
from manilla.ledger.transaction_lists import IndexedMatch, TransactionFilter

FIELDS = Fields(Dispute)
ORDERS = {
    **transaction_lists.ORDERS,
    **transaction_lists.newest_by("trx_id", DISPUTE_IDS),
    SortOrder.DEADLINE: SortKeys(("respond_by", "trx_id"), tuple[datetime, str], False),
}


class DisputeFilter(TransactionFilter, frozen=True, kw_only=True):
    status: DisputeStatus | None = None
    ref_trx: str | None = None  # of the payment
    payment_trx_id: str | None = None
    respond_before: Moment | None = None  # only disputes that need a response before this time
    is_missed: bool | None = None
    is_open: bool | None = None
    provider: str | None = None
    # Whether an administrator must review the answer, or send it manually.
    waits_for_operator: bool | None = None
    answer: str | None = None  # where the answer is, such as `review` or `manual`
    search: str | None = None  # id of a dispute or payment, or the provider's id of the dispute


async def disputes(
    db: Reads,
    scope: Scope,
    wanted: DisputeFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Dispute]:
    steps = await _query(db, scope, wanted)
    return await steps.page(db, read_as(Dispute), wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: DisputeFilter) -> Totals:
    return await (await _query(db, scope, wanted)).totals(db)


async def _query(db: Reads, scope: Scope, wanted: DisputeFilter) -> Selection:
    steps = selection(scope, wanted)
    text = listing.search_text(wanted.search)
    if text is None:
        return steps
    nothing = msgspec.structs.replace(steps.narrowed("false"), index=None)
    return await transaction_lists.first_match(db, steps, matches(text), nothing)


def selection(scope: Scope, wanted: DisputeFilter) -> Selection:
    """Returns the query for the disputes that the filter selects, without its search."""
    key = f"trx_id{collation_of(scope)}"
    conditions = (
        scope_conditions(scope)
        .add_given("status = {}", wanted.status)
        .add_given("currency = {}", wanted.currency)
        .add_given("ref_trx = {}", wanted.ref_trx)
        .add_given("payment_trx_id = {}", wanted.payment_trx_id)
        .add_given("provider = {}", wanted.provider)
        .add_given("answer = {}", wanted.answer)
        .add_given(
            "coalesce(status = 'submitted' AND answer IN ('review', 'manual'), false) = {}",
            wanted.waits_for_operator,
        )
        .add_given("(missed_at IS NOT NULL) = {}", wanted.is_missed)
        .add_given("(status IN ('needs_response', 'submitted')) = {}", wanted.is_open)
        .add_given("(status = 'needs_response' AND respond_by < {})", wanted.respond_before)
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
        .add_given(f"{key} >= {{}}", wanted.since and DISPUTE_IDS.floor(wanted.since))
        .add_given(f"{key} < {{}}", wanted.until and DISPUTE_IDS.floor(wanted.until))
    )
    bounds = transaction_lists.id_bounds(wanted.since, wanted.until, DISPUTE_IDS)
    index = KeyIndex(merchant_condition(scope), bounds, collation_of(scope))
    return Selection("dispute", DISPUTE_COLUMNS, ORDERS, conditions, index, status="status")


def matches(text: str) -> list[IndexedMatch]:
    """Returns SQL conditions, supported by indexes, for disputes with exactly this id."""
    by_provider = IndexedMatch(
        "Provider's dispute", "provider_reference = {}", (text,), is_common=True
    )
    merchant_id = DISPUTE_IDS.owner_of(text)
    if merchant_id is not None:
        key = merchant_id, text
        return [IndexedMatch("Transaction ID", "merchant_id = {} AND trx_id = {}", key)]
    payment = text.partition("-")[0]
    merchant_id = trx_ids.merchant_of(payment)
    if merchant_id is None:
        return [by_provider]
    sql = "merchant_id = {} AND payment_trx_id = {}"
    return [IndexedMatch("Transaction ID", sql, (merchant_id, payment)), by_provider]
