"""Lists requests from the API request log."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Clock, Page, Query
from manilla.kit.listing.sorting import RecordFilter, SortKeys, SortOrder, Totals, selection
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, whose, within
from manilla.merchants.requests import stored
from manilla.merchants.requests.log import KEEP
from manilla.merchants.requests.stored import REQUEST_COLUMNS, Request

TIMES = Clock(
    ("at", "request_id"), tuple[datetime, str], lambda moment: (moment, ""), lambda key: key[0]
)
_ORDERS = {
    SortOrder.NEWEST: SortKeys(TIMES.columns, TIMES.kind),
    SortOrder.OLDEST: SortKeys(TIMES.columns, TIMES.kind, False),
}
FIELDS = Fields(
    Request,
    invalid_fields=lambda line: "; ".join(f"{name}: {text}" for name, text in line.errors.items()),
    rounded_milliseconds=lambda line: f"{line.milliseconds:.1f}",
)


class RequestFilter(RecordFilter, frozen=True, kw_only=True):
    # First digit of the HTTP status: 4 means 400 to 499.
    status_class: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    refused: bool | None = None
    error_code: str | None = None
    method: str | None = None
    path: str | None = None  # prefix of the URL path
    search: str | None = None  # an exact ref_trx, trx_id or request id


async def requests(
    db: Database,
    scope: Scope,
    wanted: RequestFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Request]:
    """Returns one page of requests, by default newest first."""
    steps = _query(scope, wanted)
    if wanted.sort is SortOrder.NEWEST:
        return await listing.walk(db, steps, stored.read, after, limit)
    return await selection(steps).page(db, _ORDERS, wanted.sort, stored.read, after, limit)


async def totals(db: Database, scope: Scope, wanted: RequestFilter) -> Totals:
    return await selection(_query(scope, wanted)).count(db)


def _query(scope: Scope, wanted: RequestFilter) -> Query:
    kept_since = datetime.now(UTC) - KEEP - timedelta(days=1)
    conditions = (
        within(scope)
        .add_given("status / 100 = {}", wanted.status_class)
        .add_given("(error_code IS NOT NULL) = {}", wanted.refused)
        .add_given("error_code = {}", wanted.error_code)
        .add_given("method = {}", wanted.method)
        .add_given("starts_with(path, {})", wanted.path)
    )
    text = listing.searched(wanted.search)
    if text is not None:
        conditions.add("{} IN (request_id, ref_trx, trx_id)", text)
        conditions.add_given("merchant_id = {}", trx_ids.merchant_of(text))
    return Query(
        "api_request",
        REQUEST_COLUMNS,
        TIMES,
        whose(scope),
        conditions,
        max(wanted.since or kept_since, kept_since),
        wanted.until,
    )
