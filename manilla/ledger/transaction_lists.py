"""Code that the lists of payments, payouts and refunds share: filters, order, totals and search."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from manilla.kit.database.rows import Reads
from manilla.kit.ids import TimedIds
from manilla.kit.listing.sorting import AmountFilter, KeyIndex, Selection, SortKeys, SortOrder
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, Tenant, collation_of, merchant_condition, scope_conditions
from manilla.ledger.trx_ids import TRX_IDS

# Earlier versions stored creation times that differ from the time in the id by up to this much.
ASTRAY = timedelta(minutes=1)
# All transactions were created between these two dates.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

# Selects transactions with an open case, which needs an administrator's decision.
# There are few open cases, so the planner starts with them.
UNDER_REVIEW = """
    (merchant_id, trx_id) IN (
        SELECT c.merchant_id, c.trx_id FROM operator_case c WHERE c.status = 'open')"""


def newest_by(column: str, ids: TimedIds) -> dict[SortOrder, SortKeys]:
    """Returns the sort order that an index on ids provides, newest first."""
    kind = tuple[Annotated[str, msgspec.Meta(pattern=ids.pattern)]]
    return {SortOrder.NEWEST: SortKeys((column,), kind, is_indexed=True)}


_BY_REFERENCE = {SortOrder.NEWEST: SortKeys(("ref_trx",), tuple[str], is_indexed=True)}
ORDERS = {
    **newest_by("trx_id", TRX_IDS),
    SortOrder.OLDEST: SortKeys(("trx_id",), tuple[str], False),
    SortOrder.LARGEST: SortKeys(("amount_minor", "trx_id"), tuple[int, str]),
    SortOrder.SMALLEST: SortKeys(("amount_minor", "trx_id"), tuple[int, str], False),
    SortOrder.STATUS: SortKeys(("status", "trx_id"), tuple[str, str]),
}


class TransactionFilter(AmountFilter, frozen=True, kw_only=True):
    status: str | None = None
    currency: str | None = None


class IndexedMatch(msgspec.Struct, frozen=True):
    """A search for transactions by a complete, indexed value."""

    label: str
    sql: str
    values: tuple[Any, ...]
    is_common: bool = False  # whether several transactions of the same merchant can have this value


def query(table: str, columns: str, scope: Scope, wanted: TransactionFilter) -> Selection:
    key = f"trx_id{collation_of(scope)}"
    conditions = (
        scope_conditions(scope)
        .add_given("status = {}", wanted.status)
        .add_given("currency = {}", wanted.currency)
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
        .add_given(f"{key} >= {{}}", wanted.since and TRX_IDS.floor(wanted.since))
        .add_given(f"{key} < {{}}", wanted.until and TRX_IDS.floor(wanted.until))
    )
    bounds = id_bounds(wanted.since, wanted.until)
    index = KeyIndex(merchant_condition(scope), bounds, collation_of(scope))
    return Selection(table, columns, ORDERS, conditions, index, status="status")


def newest_first(
    table: str,
    columns: str,
    tenant: Tenant,
    *,
    statuses: Sequence[str] | None = None,
    ref_trx: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Selection:
    """Returns a query for a merchant's transactions, newest first.

    `columns` must include the id and the reference.
    """
    index, orders = KeyIndex(merchant_condition(tenant), id_bounds(since, until)), ORDERS
    if ref_trx is not None:
        # At most one row matches, so BETWEEN gives the same result as `=`.
        # BETWEEN makes the planner use the unique index instead of reading all merchant rows.
        index = KeyIndex(
            scope_conditions(tenant).add("ref_trx BETWEEN {} AND {}", ref_trx, ref_trx)
        )
        orders = _BY_REFERENCE
    wanted = (
        index.whose.copy()
        .add("environment = {}", tenant.environment)
        .add_given("status = ANY({}::text[])", statuses)
        .add_given("created_at >= {}", since)
        .add_given("created_at < {}", until)
    )
    return Selection(table, columns, orders, wanted, index)


def id_bounds(
    since: datetime | None, until: datetime | None, ids: TimedIds = TRX_IDS
) -> tuple[str, str]:
    """Returns the lowest id in the period, and the lowest id after the period."""
    low = _floor(ids, EARLIEST) if since is None else ids.floor(max(since, EARLIEST) - ASTRAY)
    high = _floor(ids, LATEST) if until is None else ids.floor(min(until, LATEST) + ASTRAY)
    return low, high


_floor = lru_cache(TimedIds.floor)


async def first_match(
    db: Reads, steps: Selection, matches: Sequence[IndexedMatch], otherwise: Selection
) -> Selection:
    """Returns the selection for the first search that finds rows, or `otherwise` if none does."""
    async with db.by_key() as connection:
        for match in matches:
            narrowed = steps.narrowed(match.sql, *match.values)
            found = f"SELECT EXISTS (SELECT FROM {steps.table} WHERE {narrowed.wanted.sql})"
            if await connection.value(found, *narrowed.wanted.values):
                return msgspec.structs.replace(narrowed, index=None)
    return otherwise


def matches(scope: Scope, text: str) -> list[IndexedMatch]:
    """Searches for transactions by their id or the merchant's reference."""
    merchant_id = trx_ids.merchant_of(text)
    if merchant_id is None:
        return [by_reference(scope, text)]
    key = merchant_id, text
    return [IndexedMatch("Transaction ID", "merchant_id = {} AND trx_id = {}", key)]


def by_reference(scope: Scope, text: str) -> IndexedMatch:
    """Searches for a merchant's reference. A search across all merchants ignores case."""
    if scope.merchant_id is None:
        return IndexedMatch("Reference", "lower(ref_trx) = lower({})", (text,))
    return IndexedMatch("Reference", "ref_trx = {}", (text,))
