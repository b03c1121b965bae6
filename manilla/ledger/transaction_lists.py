"""What the lists of payments, payouts and refunds share: filters, order, totals and search."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.ids import TimedIds
from manilla.kit.listing import Page, Query
from manilla.kit.listing.sorting import AmountFilter, SortKeys, SortOrder, Totals, selection
from manilla.kit.plans import by_key
from manilla.ledger.keyset import KeysetQuery
from manilla.ledger.scope import Scope, Tenant, clock_of, whose, within
from manilla.ledger.trx_ids import TRX_IDS

# Earlier versions stored a creation time that differs from the time in the id by up to this much.
ASTRAY = timedelta(minutes=1)
# No transaction is outside these years.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

# An administrator has to decide about the transaction. There are few such cases, so the planner
# starts with them.
UNDER_REVIEW = """
    (merchant_id, trx_id) IN (
        SELECT c.merchant_id, c.trx_id FROM operator_case c WHERE c.status = 'open')"""

T = TypeVar("T")


_KEYS = {
    SortOrder.NEWEST: SortKeys(("trx_id",), tuple[str]),
    SortOrder.OLDEST: SortKeys(("trx_id",), tuple[str], False),
    SortOrder.LARGEST: SortKeys(("amount_minor", "trx_id"), tuple[int, str]),
    SortOrder.SMALLEST: SortKeys(("amount_minor", "trx_id"), tuple[int, str], False),
    SortOrder.STATUS: SortKeys(("status", "trx_id"), tuple[str, str]),
}


class TransactionFilter(AmountFilter, frozen=True, kw_only=True):
    status: str | None = None
    currency: str | None = None


class IndexedMatch(msgspec.Struct, frozen=True):
    """A way to find transactions by a complete value that has an index."""

    label: str
    sql: str
    values: tuple[Any, ...]
    is_common: bool = False  # whether a merchant can have many transactions with the value


def query(table: str, columns: str, scope: Scope, wanted: TransactionFilter) -> Query:
    conditions = (
        within(scope)
        .add_given("status = {}", wanted.status)
        .add_given("currency = {}", wanted.currency)
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
    )
    whom, clock = whose(scope), clock_of(scope)
    return Query(table, columns, clock, whom, conditions, wanted.since, wanted.until)


def newest_first(
    table: str,
    columns: str,
    tenant: Tenant,
    *,
    statuses: Sequence[str] | None = None,
    ref_trx: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> KeysetQuery:
    """Returns the query for pages of a merchant's transactions, newest first.

    `columns` must include the id and the reference.
    """
    low, high = id_bounds(since, until)
    owned, key = whose(tenant).add("trx_id >= {} AND trx_id < {}", low, high), "trx_id"
    if ref_trx is not None:
        # At most one row. This is the same as an equality, but in the order of the unique index on
        # the reference, so that the planner does not read all of the merchant's rows instead.
        owned = within(tenant).add("ref_trx BETWEEN {} AND {}", ref_trx, ref_trx)
        key = "ref_trx"
    filters = {
        "environment = {}": tenant.environment,
        "status = ANY({}::text[])": statuses,
        "created_at >= {}": since,
        "created_at < {}": until,
    }
    given = tuple((sql, (value,)) for sql, value in filters.items() if value is not None)
    return KeysetQuery(table, "*", (key,), owned, given, shown=columns)


def id_bounds(
    since: datetime | None, until: datetime | None, ids: TimedIds = TRX_IDS
) -> tuple[str, str]:
    """Returns the least id of a row that was created in the period, and one after the last.

    Always bound the id on both sides: then the planner uses the primary key even if it believes
    that the table is small.
    """
    low = _floor(ids, EARLIEST) if since is None else ids.floor(since - ASTRAY)
    high = _floor(ids, LATEST) if until is None else ids.floor(until + ASTRAY)
    return low, high


_floor = lru_cache(TimedIds.floor)


async def searched(
    db: Database, steps: Query, matches: Sequence[IndexedMatch], otherwise: Query
) -> Query:
    """Returns the query for the first match that finds a row, or `otherwise` if none does."""
    async with by_key(db) as connection:
        for match in matches:
            narrowed = steps.narrowed(match.sql, *match.values)
            wanted = narrowed.bounded()
            found = f"SELECT EXISTS (SELECT FROM {steps.table} WHERE {wanted.sql})"
            if await connection.value(found, *wanted.values):
                return msgspec.structs.replace(narrowed, is_indexed=True)
    return otherwise


def by_reference(scope: Scope, text: str) -> IndexedMatch:
    """Matches the merchant's reference. Across merchants, upper and lower case are equal."""
    if scope.merchant_id is None:
        return IndexedMatch("Reference", "lower(ref_trx) = lower({})", (text,))
    return IndexedMatch("Reference", "ref_trx = {}", (text,))


async def page(
    db: Database,
    steps: Query,
    sort: SortOrder,
    read: Callable[[Any], T],
    after: str | None,
    limit: int,
) -> Page[T]:
    if sort is SortOrder.NEWEST and not steps.is_indexed:
        return await listing.walk(db, steps, read, after, limit)
    return await selection(steps).page(db, _KEYS, sort, read, after, limit)


async def totals(db: Database, steps: Query) -> Totals:
    return await selection(steps).totals(db)
