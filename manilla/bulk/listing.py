"""Lists the uploaded files of bulk payouts."""

from datetime import datetime

from manilla.bulk import store
from manilla.bulk.store import Batch, BatchStatus
from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import RecordFilter, Selection, SortKeys, SortOrder, Totals
from manilla.ledger.scope import Tenant, scope_conditions

FIELDS = Fields(Batch)
_ORDERS = {
    SortOrder.NEWEST: SortKeys(("created_at", "id"), tuple[datetime, str]),
    SortOrder.OLDEST: SortKeys(("created_at", "id"), tuple[datetime, str], False),
}


class BatchFilter(RecordFilter, frozen=True, kw_only=True):
    status: BatchStatus | None = None
    search: str | None = None  # a batch's id, or a part of the file's name


async def files(
    db: Reads,
    tenant: Tenant,
    wanted: BatchFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Batch]:
    """Returns one page of files, by default newest first."""
    found = await _selected(tenant, wanted).page(
        *(db, lambda record: record["id"], wanted.sort, after, limit)
    )
    return Page(await store.batches(db, tenant.merchant_id, found.rows), found.next)


async def totals(db: Reads, tenant: Tenant, wanted: BatchFilter) -> Totals:
    return await _selected(tenant, wanted).count(db)


def _selected(tenant: Tenant, wanted: BatchFilter) -> Selection:
    text = listing.search_text(wanted.search)
    conditions = (
        scope_conditions(tenant)
        .add("kind = 'file'")
        .add_given("status = {}", wanted.status)
        .add_given("created_at >= {}", wanted.since)
        .add_given("created_at < {}", wanted.until)
    )
    if text is not None:
        conditions.add("(id = {} OR position(lower({}) IN lower(file_name)) > 0)", *[text] * 2)
    return Selection("payout_batch", "id, created_at", _ORDERS, conditions)
