"""Lists requests from the API request log."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import (
    KeyIndex,
    RecordFilter,
    Selection,
    SortKeys,
    SortOrder,
    Totals,
)
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, merchant_condition, scope_conditions
from manilla.ledger.transaction_lists import LATEST
from manilla.merchants.requests import stored
from manilla.merchants.requests.stored import REQUEST_COLUMNS, Request

_KEY = ("at", "request_id"), tuple[datetime, str]
_ORDERS = {
    SortOrder.NEWEST: SortKeys(*_KEY, is_indexed=True),
    SortOrder.OLDEST: SortKeys(*_KEY, is_descending=False),
}
FIRST_SPAN, WIDER = timedelta(minutes=1), 3
# The longest retention of the request log is 3,650 days, and a whole month is removed at once.
KEPT_MAX = timedelta(days=3_750)
FIELDS = Fields(
    Request,
    invalid_fields=lambda line: "; ".join(f"{name}: {text}" for name, text in line.errors.items()),
    rounded_milliseconds=lambda line: f"{line.milliseconds:.1f}",
)


class RequestFilter(RecordFilter, frozen=True, kw_only=True):
    # First digit of the HTTP status, for example 4 for 400 to 499.
    status_class: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    refused: bool | None = None
    error_code: str | None = None
    method: str | None = None
    path: str | None = None  # prefix of the URL path
    search: str | None = None  # an exact ref_trx, trx_id or request id


async def requests(
    db: Reads,
    scope: Scope,
    wanted: RequestFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Request]:
    steps = _query(scope, wanted)
    if scope.merchant_id is None and wanted.sort is SortOrder.NEWEST:
        return await _newest_of_all(db, steps, after, limit)
    return await steps.page(db, stored.read, wanted.sort, after, limit)


async def _newest_of_all(
    db: Reads, steps: Selection, after: str | None, limit: int
) -> Page[Request]:
    """Returns one page of all merchants' requests.

    The index for all merchants finds the rows of a time span, but not in order. So this function
    reads a short span before the last row, and widens the span until the page is full.
    """
    last = listing.read_cursor(_KEY[1], after)
    assert steps.index is not None
    assert steps.index.bounds is not None
    low, high = steps.index.bounds
    if last is not None:
        high = min(high, last[0]) + timedelta(microseconds=1)
    start, span = min(high, datetime.now(UTC)), FIRST_SPAN
    while True:
        since = low if start - low <= span else start - span
        index = msgspec.structs.replace(steps.index, bounds=(since, high))
        recent = msgspec.structs.replace(steps, index=index)
        page = await recent.page(db, stored.read, SortOrder.NEWEST, after, limit)
        if page.next is not None or since == low:
            return page
        span *= WIDER


async def totals(db: Reads, scope: Scope, wanted: RequestFilter) -> Totals:
    return await _query(scope, wanted).count(db)


def _query(scope: Scope, wanted: RequestFilter) -> Selection:
    kept_since = datetime.now(UTC) - KEPT_MAX
    since = max(wanted.since or kept_since, kept_since)
    conditions = (
        scope_conditions(scope)
        .add_given("status / 100 = {}", wanted.status_class)
        .add_given("(error_code IS NOT NULL) = {}", wanted.refused)
        .add_given("error_code = {}", wanted.error_code)
        .add_given("method = {}", wanted.method)
        .add_given("starts_with(path, {})", wanted.path)
        .add("at >= {}", since)
        .add_given("at < {}", wanted.until)
    )
    text = listing.search_text(wanted.search)
    if text is not None:
        conditions.add("{} IN (request_id, ref_trx, trx_id)", text)
        conditions.add_given("merchant_id = {}", trx_ids.merchant_of(text))
    index = KeyIndex(merchant_condition(scope), (since, wanted.until or LATEST))
    return Selection("api_request", REQUEST_COLUMNS, _ORDERS, conditions, index)
