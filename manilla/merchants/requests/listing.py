"""Lists requests from the API request log."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Clock, Moment, Page, Query
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, whose, within
from manilla.merchants.requests import stored
from manilla.merchants.requests.log import KEEP
from manilla.merchants.requests.stored import REQUEST_COLUMNS, Request

TIMES = Clock(
    ("at", "request_id"), tuple[datetime, str], lambda moment: (moment, ""), lambda key: key[0]
)
FIELDS = Fields(
    Request,
    invalid_fields=lambda line: "; ".join(f"{name}: {text}" for name, text in line.errors.items()),
    rounded_milliseconds=lambda line: f"{line.milliseconds:.1f}",
)


class RequestFilter(msgspec.Struct, frozen=True, kw_only=True):
    # First digit of the HTTP status: 4 means 400 to 499.
    status_class: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    refused: bool | None = None
    error_code: str | None = None
    method: str | None = None
    path: str | None = None  # prefix of the URL path
    since: Moment | None = None
    until: Moment | None = None  # exclusive upper bound of the time
    search: str | None = None  # an exact ref_trx, trx_id or request id


async def requests(
    db: Database,
    scope: Scope,
    wanted: RequestFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Request]:
    """Returns one page of requests, newest first."""
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
    steps = Query(
        "api_request",
        REQUEST_COLUMNS,
        TIMES,
        whose(scope),
        conditions,
        max(wanted.since or kept_since, kept_since),
        wanted.until,
    )
    return await listing.walk(db, steps, stored.read, after, limit)
