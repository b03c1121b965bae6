"""Lists cases. There are few, because each one is an exception."""

from enum import StrEnum

import msgspec

from manilla.cases.cases import CASE, Case, CaseKind
from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, PAGE_ROWS_MAX, Conditions, Moment, Page
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone, Scope, Tenant, whose, within

FIELDS = Fields(Case, merchant_id=lambda case: case.merchant_id or None)


class CaseStatus(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"


class CaseFilter(msgspec.Struct, frozen=True, kw_only=True):
    status: CaseStatus | None = None
    kind: CaseKind | None = None
    since: Moment | None = None
    until: Moment | None = None  # exclusive upper bound of the time
    search: str | None = None  # a full reference or trx_id, or the case's id


async def cases(
    db: Database,
    scope: Scope,
    wanted: CaseFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Case]:
    """Lists cases, newest first."""
    limit = min(limit, PAGE_ROWS_MAX)
    conditions = (
        _within(scope)
        .add_given("id < {}", listing.read_cursor(int, after))
        .add_given("status = {}", wanted.status)
        .add_given("kind = {}", wanted.kind)
        .add_given("opened_at >= {}", wanted.since)
        .add_given("opened_at < {}", wanted.until)
    )
    text = listing.searched(wanted.search)
    if text is not None:
        conditions.add("{} IN (reference, trx_id, id::text)", text)
        owner = trx_ids.merchant_of(text.partition("-")[0])
        conditions.add_given("merchant_id = {}", owner)
    rows = await db.rows(
        Case,
        f"{CASE} WHERE {conditions.sql} ORDER BY id DESC LIMIT {limit}",
        *conditions.values,
    )
    return Page(rows, listing.cursor(rows[-1].id) if len(rows) == limit else None)


async def about(db: Database, merchant_id: int, trx_id: str) -> list[Case]:
    """Returns the newest cases about a transaction."""
    return (await cases(db, Everyone(merchant_id), CaseFilter(search=trx_id))).rows


def _within(scope: Scope) -> Conditions:
    """Filters by environment. In production, includes cases without an environment.

    A case about an unknown reference has no environment, but may be about real money.
    """
    if isinstance(scope, Tenant) or scope.environment is not Environment.PRODUCTION:
        return within(scope)
    return whose(scope).add("coalesce(environment, {}) = {}", *[scope.environment] * 2)


async def count_open(db: Database, scope: Scope) -> int:
    conditions = _within(scope)
    return await db.number(
        f"SELECT count(*) FROM operator_case WHERE status = 'open' AND {conditions.sql}",
        *conditions.values,
    )
