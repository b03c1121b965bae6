"""Orders and totals of lists.

The newest rows are found at the same cost however many there are. Totals and other orders read all
rows that match, so they work only up to ROWS_MAX rows.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.listing import PAGE_ROWS_MAX, Conditions, Moment, Number, Page, Query
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


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The filters that every list has."""

    since: Moment | None = None
    until: Moment | None = None  # exclusive upper bound of the time
    search: str | None = None
    sort: SortOrder = SortOrder.NEWEST


class AmountFilter(RecordFilter, frozen=True, kw_only=True):
    """The filters of a list whose rows have an amount."""

    min_minor: Number | None = None
    max_minor: Number | None = None


class SortKeys(msgspec.Struct, frozen=True):
    """The columns that an order sorts by, all in the same direction."""

    columns: tuple[str, ...]
    kind: Any  # type of a cursor
    is_descending: bool = True


NUMBERED: Mapping[SortOrder, SortKeys] = {
    SortOrder.NEWEST: SortKeys(("id",), tuple[int]),
    SortOrder.OLDEST: SortKeys(("id",), tuple[int], False),
    SortOrder.STATUS: SortKeys(("status", "id"), tuple[str, int]),
}


class StatusTotals(msgspec.Struct, frozen=True):
    """The rows with one status."""

    count: int = 0
    sums: list[Money] = []  # one per currency


class Totals(msgspec.Struct, frozen=True):
    count: int
    sums: list[Money]  # one per currency; empty if the rows have no amounts
    by_status: Mapping[str, StatusTotals] = {}  # empty if the list has no statuses to tell apart

    @property
    def is_exact(self) -> bool:
        """Whether all rows were counted; otherwise there are more than ROWS_MAX."""
        return self.count <= ROWS_MAX


class Selection(msgspec.Struct, frozen=True):
    """The rows that a list can show."""

    table: str
    columns: str
    wanted: Conditions
    amounts: str = "currency, amount_minor"  # the columns that totals need
    status: str | None = None  # the column that totals are grouped by

    async def page(
        self,
        db: Database,
        orders: Mapping[SortOrder, SortKeys],
        sort: SortOrder,
        read: Callable[[Any], T],
        after: str | None,
        limit: int,
    ) -> Page[T]:
        """Returns one page of the rows in this order; newest first if the list lacks the order."""
        keys = orders.get(sort, orders[SortOrder.NEWEST])
        wanted, limit = self.wanted.copy(), min(limit, PAGE_ROWS_MAX)
        key = listing.read_cursor(keys.kind, after)
        if key is not None:
            marks = ", ".join(wanted.value(part) for part in key)
            sign = "<" if keys.is_descending else ">"
            wanted.add(f"({', '.join(keys.columns)}) {sign} ({marks})")
        direction = " DESC" if keys.is_descending else ""
        order = ", ".join(column + direction for column in keys.columns)
        records = await db.records(
            f"SELECT {self.columns} FROM {self.table} WHERE {wanted.sql}"
            f" ORDER BY {order} LIMIT {limit}",
            *wanted.values,
        )
        rows = [read(record) for record in records]
        if len(rows) < limit:
            return Page(rows)
        return Page(rows, listing.cursor(tuple(records[-1][column] for column in keys.columns)))

    async def count(self, db: Database) -> Totals:
        """Counts the rows, up to ROWS_MAX."""
        count = await db.number(
            f"SELECT count(*) FROM (SELECT FROM {self.table} WHERE {self.wanted.sql}"
            f" LIMIT {ROWS_MAX + 1}) AS counted",
            *self.wanted.values,
        )
        return Totals(count, [])

    async def totals(self, db: Database) -> Totals:
        """Counts the rows and sums their amounts, up to ROWS_MAX; per status if there is one."""
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


def selection(steps: Query) -> Selection:
    """Returns all rows of a query, for totals and for orders other than the newest first."""
    return Selection(steps.table, steps.columns, steps.bounded(), status="status")
