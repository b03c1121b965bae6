"""Lists cases. There are only a few, because a case is opened only for an exceptional problem."""

from enum import StrEnum

from manilla.cases.cases import Case, CaseKind
from manilla.kit import listing
from manilla.kit.database.rows import Reads, columns
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Conditions, Page
from manilla.kit.listing.sorting import (
    AmountFilter,
    Selection,
    SortKeys,
    SortOrder,
    Totals,
    read_as,
)
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone, Scope, Tenant, merchant_condition, scope_conditions

FIELDS = Fields(Case, merchant_id=lambda case: case.merchant_id or None)
# A case without an amount is sorted as if its amount were zero.
_TABLE = "(SELECT *, coalesce(amount_minor, 0) AS size FROM operator_case) AS listed"
# The cases of merchants from different cells can have the same number.
_ORDERS = {
    SortOrder.NEWEST: SortKeys(("id", "merchant_id"), tuple[int, int]),
    SortOrder.OLDEST: SortKeys(("id", "merchant_id"), tuple[int, int], False),
    SortOrder.STATUS: SortKeys(("status", "id", "merchant_id"), tuple[str, int, int]),
    SortOrder.LARGEST: SortKeys(("size", "id", "merchant_id"), tuple[int, int, int]),
    SortOrder.SMALLEST: SortKeys(("size", "id", "merchant_id"), tuple[int, int, int], False),
}


class CaseStatus(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"


class CaseFilter(AmountFilter, frozen=True, kw_only=True):
    status: CaseStatus | None = None
    kind: CaseKind | None = None
    search: str | None = None  # a full reference or trx_id, or the case's id


async def cases(
    db: Reads,
    scope: Scope,
    wanted: CaseFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Case]:
    return await _selected(scope, wanted).page(db, read_as(Case), wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: CaseFilter) -> Totals:
    return await _selected(scope, wanted).totals(db)


def _selected(scope: Scope, wanted: CaseFilter) -> Selection:
    conditions = (
        _within(scope)
        .add_given("status = {}", wanted.status)
        .add_given("kind = {}", wanted.kind)
        .add_given("opened_at >= {}", wanted.since)
        .add_given("opened_at < {}", wanted.until)
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
    )
    text = listing.search_text(wanted.search)
    if text is not None:
        conditions.add(
            "(reference = {} OR trx_id = {} OR id = {}::bigint)", text, text, listing.number(text)
        )
        owner = trx_ids.merchant_of(text.partition("-")[0])
        conditions.add_given("merchant_id = {}", owner)
    return Selection(_TABLE, f"{columns(Case)}, size", _ORDERS, conditions)


async def about(db: Reads, merchant_id: int, trx_id: str) -> list[Case]:
    return (await cases(db, Everyone(merchant_id), CaseFilter(search=trx_id))).rows


async def has_open(db: Reads, merchant_id: int, trx_id: str) -> bool:
    """Whether the transaction has an open case, which an administrator must resolve."""
    return await db.has_row(
        "SELECT 1 FROM operator_case WHERE merchant_id = $1 AND trx_id = $2 AND status = 'open'",
        *(merchant_id, trx_id),
    )


def _within(scope: Scope) -> Conditions:
    """Filters by environment. In production, includes cases without an environment.

    A case about an unknown reference has no environment, but may be about real money.
    """
    if isinstance(scope, Tenant) or scope.environment is not Environment.PRODUCTION:
        return scope_conditions(scope)
    return merchant_condition(scope).add("coalesce(environment, {}) = {}", *[scope.environment] * 2)


async def count_open(db: Reads, scope: Scope) -> int:
    conditions = _within(scope)
    return await db.number(
        f"SELECT count(*) FROM operator_case WHERE status = 'open' AND {conditions.sql}",
        *conditions.values,
    )
