"""List pages of transactions. Each list is declared as data: columns, filters, order and totals."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from manilla.kit import deadline
from manilla.kit.db import Database
from manilla.kit.display import money
from manilla.kit.fields import Columns
from manilla.kit.listing import Page, in_pages
from manilla.ledger.scope import Scope
from manilla.ledger.transaction_lists import ROWS_MAX, SortOrder, Totals, TransactionFilter
from manilla.people import list_columns
from manilla.web import exports, lists
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest, PageResponse, safe_path

Filter = TypeVar("Filter", bound=TransactionFilter)

COLUMNS_MAX, NAME_LENGTH_MAX = 40, 40
DEFAULT_CURRENCY = "NGN"
SORTS = {
    SortOrder.NEWEST: "Newest",
    SortOrder.OLDEST: "Oldest",
    SortOrder.LARGEST: "Largest amount",
    SortOrder.SMALLEST: "Smallest amount",
    SortOrder.STATUS: "Status",
}


class ListColumn(msgspec.Struct, frozen=True):
    name: str
    title: str
    cell: Callable[[PageRequest, Any], object]  # text or markup
    is_number: bool = False
    is_default: bool = True  # whether it is shown until the user chooses columns
    # The orders that the column's title switches between; the first one applies first.
    sorts: tuple[SortOrder, ...] = ()


class ListFilter(msgspec.Struct, frozen=True):
    """A filter above a list. Without options it is a text field, with suggestions if given."""

    name: str
    label: str
    options: Sequence[tuple[str, str]] = ()
    suggestions: Sequence[str] = ()
    path: str = ""  # where suggestions for the typed text come from


class TransactionList(msgspec.Struct, frozen=True):
    name: str  # under which a user's columns are saved
    noun: str
    columns: tuple[ListColumn, ...]
    fetch: Callable[..., Awaitable[Page[Any]]]
    totals: Callable[[Database, Scope, Any], Awaitable[Totals]]

    async def show(
        self,
        request: PageRequest,
        template: str,
        export: Columns[Any],
        scope: Scope,
        wanted: TransactionFilter,
        filters: Sequence[ListFilter],
        *,
        views: Sequence[str] = (),
        named: Callable[[list[Any]], Awaitable[list[Any]]] | None = None,
        **values: Any,
    ) -> PageResponse:
        """Shows a page of the list, or exports it, newest first.

        `named` adds to the rows what the cells and the export need besides them.
        """
        if exports.is_wanted(request):
            newest = msgspec.structs.replace(wanted, sort=SortOrder.NEWEST)
            pages = in_pages(partial(self._rows, named), request.db, scope, newest)
            return exports.send(request, self.name.replace("_", "-"), export, pages)
        totals = await deadline.or_none(self.totals(request.db, scope, wanted))
        is_sortable = totals is not None and totals.is_exact
        sort = wanted.sort if is_sortable else SortOrder.NEWEST
        found = await self._rows(
            named,
            *(request.db, scope, msgspec.structs.replace(wanted, sort=sort)),
            after=lists.after(request),
        )
        chosen = await list_columns.chosen(request.db, request.visitor.person_id, self.name)
        view = TransactionListView(request, found.next, self, chosen, totals, wanted.sort, views)
        view.filters, view.is_sorted = filters, sort is wanted.sort
        return request.page(template, rows=found.rows, listing=view, **values)

    async def _rows(
        self,
        named: Callable[[list[Any]], Awaitable[list[Any]]] | None,
        *arguments: Any,
        **more: Any,
    ) -> Page[Any]:
        page = await self.fetch(*arguments, **more)
        return page if named is None else Page(await named(page.rows), page.next)


class TransactionListView(ListView):
    """The values that the template of a list of transactions needs."""

    filters: Sequence[ListFilter]
    is_sorted: bool  # False: there are too many rows for the wanted order

    def __init__(
        self,
        request: PageRequest,
        following: str | None,
        shown: TransactionList,
        chosen: Sequence[str] | None,
        totals: Totals | None,
        sort: SortOrder,
        views: Sequence[str],
    ) -> None:
        super().__init__(request, following, views=(*views, "sort"))
        self.name, self.noun = shown.name, shown.noun
        self.all_columns = shown.columns
        wanted = {column.name for column in shown.columns if column.is_default}
        names = wanted if chosen is None else set(chosen)
        self.columns = [column for column in shown.columns if column.name in names]
        self.columns = self.columns or list(shown.columns)
        self.summary = _summary(shown.noun, totals)
        self.sort, self.sorts = sort, SORTS
        self.periods = [
            (label, self.with_values(period=name, since="", until=""), self.period == name)
            for name, label in lists.PERIODS.items()
        ]

    def sort_url(self, column: ListColumn) -> str:
        """Returns the URL that sorts by the column, or reverses its order."""
        current = column.sorts.index(self.sort) if self.sort in column.sorts else -1
        return self.with_values(sort=column.sorts[(current + 1) % len(column.sorts)])

    def direction(self, column: ListColumn) -> str | None:
        """Returns the value of `aria-sort`; None if the list is not sorted by the column."""
        if not self.is_sorted or self.sort not in column.sorts:
            return None
        falls = self.sort in (SortOrder.NEWEST, SortOrder.LARGEST, SortOrder.STATUS)
        return "descending" if falls else "ascending"


def read_filter(request: PageRequest, kind: type[Filter], *names: str) -> Filter:
    """Reads the filters that all lists of transactions have, and these further ones."""
    wanted = lists.read_filter(request, kind, "status", "currency", "sort", *names)
    currency = wanted.currency or DEFAULT_CURRENCY
    bounds = {
        f"{name}_minor": request.query.money(name, currency).minor
        for name in ("min", "max")
        if request.query.text(name)
    }
    return msgspec.structs.replace(wanted, **bounds)


def choices(values: Sequence[str]) -> list[tuple[str, str]]:
    return [(value, value.capitalize()) for value in values]


def currency_filter(codes: Sequence[str]) -> list[ListFilter]:
    """Returns the filter by currency, if there are several."""
    options = [(code, code) for code in codes]
    return [ListFilter("currency", "Currency", options)] if len(codes) > 1 else []


async def choose_columns(request: PageRequest) -> PageResponse:
    """Saves the columns that the user wants to see in a list."""
    columns = request.form.all("column")[:COLUMNS_MAX]
    name = request.parameter("list")
    if all(len(text) <= NAME_LENGTH_MAX for text in (*columns, name)):
        kept = [] if "default" in request.form else columns
        await list_columns.choose(request.db, request.visitor.person_id, name, kept)
    onward = request.form.text("next", at_most=2000)
    return request.redirect(safe_path(request.layout, onward, "/"))


def _summary(noun: str, totals: Totals | None) -> str:
    if totals is None:
        return "Counting takes too long. Choose a shorter period to see the total."
    if not totals.is_exact:
        return f"More than {ROWS_MAX:,} {noun}s. Choose a shorter period to see the total."
    nouns = noun if totals.count == 1 else f"{noun}s"
    sums = " and ".join(money(total) for total in totals.sums)
    return f"{totals.count:,} {nouns}" + (f", total {sums}" if sums else "")
