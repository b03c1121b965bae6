"""Lists shares by the creation time in their ids, by default newest first."""

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import Selection, Totals, read_as
from manilla.ledger import transaction_lists
from manilla.ledger.scope import Scope
from manilla.ledger.transaction_lists import IndexedMatch, TransactionFilter
from manilla.splits.share import Share, ShareStatus
from manilla.splits.store import SHARE_COLUMNS

FIELDS = Fields(Share)


class ShareFilter(TransactionFilter, frozen=True, kw_only=True):
    status: ShareStatus | None = None
    search: str | None = None  # id of a share or of its payment


async def shares(
    db: Reads,
    scope: Scope,
    wanted: ShareFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Share]:
    steps = await _query(db, scope, wanted)
    return await steps.page(db, read_as(Share), wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: ShareFilter) -> Totals:
    return await (await _query(db, scope, wanted)).totals(db)


async def _query(db: Reads, scope: Scope, wanted: ShareFilter) -> Selection:
    steps = transaction_lists.query("split", SHARE_COLUMNS, scope, wanted)
    text = listing.search_text(wanted.search)
    if text is None:
        return steps
    nothing = msgspec.structs.replace(steps.narrowed("false"), index=None)
    by_payment = IndexedMatch("Payment", "payment_trx_id = {}", (text,), is_common=True)
    matches = [*transaction_lists.matches(scope, text), by_payment]
    return await transaction_lists.first_match(db, steps, matches, nothing)
