"""Reads the pages of a list in one of its sort orders, and the list's totals.

Fetching a page in the order of an index takes the same time for any number of rows in the table.
Fetching a page in another order, or the totals, reads all matching rows, so it is possible only up
to ROWS_MAX rows.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from manilla.kit import listing
from manilla.kit.database.rows import Reads
from manilla.kit.listing import PAGE_ROWS_MAX, Conditions, Moment, Number, Page
from manilla.kit.money import Money

ROWS_MAX = 100_000

T = TypeVar("T")


class SortOrder(StrEnum):
    NEWEST = "newest"
    OLDEST = "oldest"
    LARGEST = "largest"
    SMALLEST = "smallest"
    STATUS = "status"
    NAME = "name"
    DEADLINE = "deadline"  # what ends first


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    since: Moment | None = None
    until: Moment | None = None  # exclusive upper bound of the time range
    search: str | None = None
    sort: SortOrder = SortOrder.NEWEST


class AmountFilter(RecordFilter, frozen=True, kw_only=True):
    min_minor: Number | None = None
    max_minor: Number | None = None


class SortKeys(msgspec.Struct, frozen=True):
    """The columns of a sort order, all sorted in the same direction."""

    columns: tuple[str, ...]
    kind: Any  # the cursor type for this sort order
    is_descending: bool = True
    is_indexed: bool = False  # whether the list's `KeyIndex` stores the rows in this order

    def order(self, collation: str = "") -> str:
        direction = " DESC" if self.is_descending else ""
        return ", ".join(f"{column}{collation}{direction}" for column in self.columns)

    def after(self, key: Sequence[Any] | None, values: Conditions, collation: str = "") -> str:
        """Returns the SQL condition for rows after the key, and adds the key's values as
        parameters.
        """
        if key is None:
            return "true"
        columns = ", ".join(f"{column}{collation}" for column in self.columns)
        marks = ", ".join(map(values.value, key))
        return f"({columns}) {'<' if self.is_descending else '>'} ({marks})"

    def key(self, record: Any) -> tuple[Any, ...]:
        return tuple(record[column] for column in self.columns)


NUMBERED: Mapping[SortOrder, SortKeys] = {
    SortOrder.NEWEST: SortKeys(("id",), tuple[int]),
    SortOrder.OLDEST: SortKeys(("id",), tuple[int], False),
    SortOrder.STATUS: SortKeys(("status", "id"), tuple[str, int]),
}


class StatusTotals(msgspec.Struct, frozen=True):
    """The number of rows with one status, and the sums of their amounts."""

    count: int = 0
    sums: list[Money] = []  # one per currency


class Totals(msgspec.Struct, frozen=True):
    count: int
    sums: list[Money]  # one sum per currency; empty if the rows have no amounts
    by_status: Mapping[str, StatusTotals] = {}  # empty if the list has no status column

    @property
    def is_exact(self) -> bool:
        """Returns True if all rows were counted, or False if there are more than ROWS_MAX rows."""
        return self.count <= ROWS_MAX


def read_as(kind: type[T]) -> Callable[[Any], T]:
    """Returns a function that converts a database record to this type."""
    return lambda record: msgspec.convert(dict(record), kind)


class KeyIndex(msgspec.Struct, frozen=True):
    """An index that stores a list's rows in one sort order, but covers only some conditions.

    Fetching a page in that order reads at most LOOK_MAX rows. If few of these rows match the other
    conditions, the page has fewer rows than requested, and the next page continues after the last
    row read.
    """

    whose: Conditions  # the conditions that the index covers, which must come first
    # The lower and upper bounds of the first column's values.
    # With both bounds, the planner uses the index even if it estimates that the table is small.
    bounds: tuple[Any, Any] | None = None
    collation: str = ""  # the index's collation, or empty if it is the default collation


class Selection(msgspec.Struct, frozen=True):
    """The rows that a list can show, with the tables and conditions for querying them."""

    table: str  # a table, or an SQL source that ends with its alias
    columns: str  # the selected columns, including the columns of all sort orders
    orders: Mapping[SortOrder, SortKeys]
    wanted: Conditions
    index: KeyIndex | None = None  # None if every condition has an index, or if the table is small
    amounts: str = "currency, amount_minor"  # the columns that totals need
    status: str | None = None  # the name of the column that totals are grouped by

    def narrowed(self, sql: str, *values: Any) -> "Selection":
        return msgspec.structs.replace(self, wanted=self.wanted.copy().add(sql, *values))

    async def page(
        self,
        db: Reads,
        read: Callable[[Any], T],
        sort: SortOrder,
        after: str | None,
        limit: int,
    ) -> Page[T]:
        """Returns one page of rows in this sort order, or newest first if it is not supported.

        The page starts after the last key of the previous page. Rows that are added in the meantime
        therefore cause neither repeated nor skipped rows.
        """
        keys = self.orders[sort if sort in self.orders else SortOrder.NEWEST]
        limit, key = min(limit, PAGE_ROWS_MAX), listing.read_cursor(keys.kind, after)
        wanted, index = self.wanted.copy(), self.index if keys.is_indexed else None
        if index is None:
            found = f"{self.table} WHERE {wanted.sql} AND {keys.after(key, wanted)}"
            order = keys.order()
        else:
            looked = self._looked(index, keys, key, wanted)
            name, order = self.table.split()[-1], keys.order(index.collation)
            found = f"""(
                SELECT * {looked} LIMIT {listing.LOOK_MAX}) AS {name}
                 WHERE {wanted.beyond(index.whose)}"""
        records = await db.records(
            f"SELECT {self.columns} FROM {found} ORDER BY {order} LIMIT {limit + 1}",
            *wanted.values,
        )
        page = listing.page_of(records, limit, keys.key)
        following = page.next
        if following is None and index is not None:
            following = await self._last_looked(db, index, keys, key)
        return Page(list(map(read, page.rows)), following)

    async def _last_looked(
        self, db: Reads, index: KeyIndex, keys: SortKeys, key: Sequence[Any] | None
    ) -> str | None:
        """Returns the cursor after the last row that the page may read, or None if no rows are
        left.
        """
        values = index.whose.copy()
        looked = self._looked(index, keys, key, values)
        record = await db.record(
            f"SELECT {', '.join(keys.columns)} {looked} OFFSET {listing.LOOK_MAX - 1} LIMIT 1",
            *values.values,
        )
        return None if record is None else listing.cursor(keys.key(record))

    def _looked(
        self, index: KeyIndex, keys: SortKeys, key: Sequence[Any] | None, values: Conditions
    ) -> str:
        """Returns the part of the query that reads rows after the key in the order of the index."""
        first, bounds = f"{keys.columns[0]}{index.collation}", "true"
        if index.bounds is not None:
            low, high = map(values.value, index.bounds)
            bounds = f"{first} >= {low} AND {first} < {high}"
        return f"""
            FROM {self.table}
           WHERE {index.whose.sql} AND {bounds} AND {keys.after(key, values, index.collation)}
           ORDER BY {keys.order(index.collation)}"""

    async def count(self, db: Reads) -> Totals:
        """Counts the rows, up to ROWS_MAX."""
        count = await db.number(
            f"SELECT count(*) FROM (SELECT FROM {self.table} WHERE {self.wanted.sql}"
            f" LIMIT {ROWS_MAX + 1}) AS counted",
            *self.wanted.values,
        )
        return Totals(count, [])

    async def totals(self, db: Reads) -> Totals:
        """Counts up to ROWS_MAX rows and sums their amounts, in total and per status."""
        status = self.status or "NULL"
        records = await db.records(
            f"""
            SELECT currency, status, count(*) AS count, sum(amount_minor)::bigint AS minor
              FROM (SELECT {self.amounts}, {status} AS status FROM {self.table}
                     WHERE {self.wanted.sql} LIMIT {ROWS_MAX + 1}) AS counted
             GROUP BY currency, status ORDER BY currency, status""",
            *self.wanted.values,
        )
        whole = _status_totals(records)
        statuses = {record["status"] for record in records if record["status"] is not None}
        by_status = {
            each: _status_totals([record for record in records if record["status"] == each])
            for each in statuses
        }
        return Totals(whole.count, whole.sums, by_status)


def _status_totals(records: Sequence[Any]) -> StatusTotals:
    sums: dict[str, int] = {}
    for record in records:
        if record["minor"] is not None:
            sums[record["currency"]] = sums.get(record["currency"], 0) + record["minor"]
    money = [Money(currency, minor) for currency, minor in sums.items()]
    return StatusTotals(sum(record["count"] for record in records), money)
