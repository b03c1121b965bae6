"""Lists refunds by the creation time in their ids, by default newest first."""

from datetime import datetime

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import Selection, Totals, read_as
from manilla.ledger import transaction_lists, trx_ids
from manilla.ledger.scope import Scope, scope_conditions
from manilla.ledger.transaction_lists import IndexedMatch, TransactionFilter
from manilla.refunds.refund import Refund, RefundStatus
from manilla.refunds.store import REFUND_COLUMNS

FIELDS = Fields(Refund)


class RefundFilter(TransactionFilter, frozen=True, kw_only=True):
    status: RefundStatus | None = None
    by_operator: bool | None = None  # whether an administrator must pay the refund
    search: str | None = None  # id of a refund or payment, or a charge's reference


async def refunds(
    db: Reads,
    scope: Scope,
    wanted: RefundFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Refund]:
    steps = await _query(db, scope, wanted)
    return await steps.page(db, read_as(Refund), wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: RefundFilter) -> Totals:
    return await (await _query(db, scope, wanted)).totals(db)


async def _query(db: Reads, scope: Scope, wanted: RefundFilter) -> Selection:
    steps = transaction_lists.query("refund", REFUND_COLUMNS, scope, wanted)
    if wanted.by_operator is not None:
        steps = steps.narrowed("by_operator = {}", wanted.by_operator)
    text = listing.search_text(wanted.search)
    if text is None:
        return steps
    nothing = msgspec.structs.replace(steps.narrowed("false"), index=None)
    return await transaction_lists.first_match(db, steps, matches(text), nothing)


def matches(text: str) -> list[IndexedMatch]:
    """Returns SQL conditions, supported by indexes, for refunds with exactly this id."""
    trx_id = text.partition("-")[0]
    merchant_id = trx_ids.merchant_of(trx_id)
    if merchant_id is None:
        return []
    sql = "merchant_id = {} AND (trx_id = {} OR payment_trx_id = {})"
    return [IndexedMatch("Transaction ID", sql, (merchant_id, trx_id, trx_id))]


async def count_rejected(db: Reads, scope: Scope, since: datetime) -> int:
    """Counts failed refunds created since `since`. Their customers did not get the money."""
    conditions = scope_conditions(scope).add("trx_id >= {}", trx_ids.floor(since))
    return await db.number(
        f"SELECT count(*) FROM refund WHERE status = 'failed' AND {conditions.sql}",
        *conditions.values,
    )
