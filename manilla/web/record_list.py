"""List pages. Each list is declared as data: its columns, filters and query.

Every list has periods, a search, filters, the count and the sum of the filtered rows, sort orders,
a choice of columns for each user, and exports.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import Any, Concatenate, TypeVar

import msgspec

from manilla.kit import deadline
from manilla.kit.database.rows import Reads
from manilla.kit.display import money
from manilla.kit.fields import Columns
from manilla.kit.listing import Page, in_pages
from manilla.kit.listing.sorting import (
    ROWS_MAX,
    AmountFilter,
    RecordFilter,
    SortOrder,
    StatusTotals,
    Totals,
)
from manilla.kit.money import Money
from manilla.people import list_columns
from manilla.web import exports, lists
from manilla.web.display import short_moment
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest, safe_path
from manilla.web.serving.response import PageResponse

Amounts = TypeVar("Amounts", bound=AmountFilter)

COLUMNS_MAX, NAME_LENGTH_MAX = 40, 40
DEFAULT_CURRENCY = "NGN"
BY_TIME = (SortOrder.NEWEST, SortOrder.OLDEST)
BY_AMOUNT = (SortOrder.LARGEST, SortOrder.SMALLEST)
FALLING = (SortOrder.NEWEST, SortOrder.LARGEST, SortOrder.STATUS)
# The labels of the date and amount filters, which all lists have.
RANGES = {"since": "From", "until": "To", "min": "Lowest amount", "max": "Highest amount"}
# The labels of the links to the first and the next page.
PAGER = {SortOrder.NEWEST: ("Newest", "Older"), SortOrder.OLDEST: ("Oldest", "Newer")}


class Place(StrEnum):
    """The position of a column's value in a row on phones, where a row has two lines."""

    NAME = "name"  # first line
    AMOUNT = "amount"  # end of the first line; stays visible while a wide list is scrolled
    TIME = "time"  # second line
    ASIDE = "aside"  # second line, after the time
    STATUS = "status"  # end of the second line
    DETAIL = "detail"  # a separate line
    WIDE_SCREENS = "more"  # only on wide screens


class ListColumn(msgspec.Struct, frozen=True):
    name: str
    title: str
    cell: Callable[[PageRequest, Any], object]  # text or markup
    place: Place = Place.WIDE_SCREENS
    is_number: bool = False
    is_default: bool = True  # whether the list shows the column by default
    # The sort orders that the user can select by clicking the column's title.
    sorts: tuple[SortOrder, ...] = ()
    is_wide: bool = False  # whether long text wraps, in a wide column
    # Whether long text wraps instead of being cut off. A row's name always wraps.
    is_whole: bool = False

    @property
    def css(self) -> str:
        """The CSS classes of the column's cells."""
        kinds = ("num" * self.is_number, "wide" * self.is_wide, "whole" * self.is_whole)
        return " ".join(filter(None, (f"at-{self.place}", *kinds)))


class ListFilter(msgspec.Struct, frozen=True):
    """A filter of a list. If it has no options, the filter is a text field."""

    name: str
    label: str
    options: Sequence[tuple[str, ...]] = ()  # each option's value and text
    value: str = ""  # the selected value, or empty to use the query's value
    path: str = ""  # the URL path of the suggestions shown as the user types
    # Whether there are so many options that users find an option by typing.
    # Each option then has a third item: the words that users can type to find it.
    is_picked: bool = False

    @property
    def is_select(self) -> bool:
        return bool(self.options) and not self.is_picked


def time_column(title: str, attribute: str, *, is_default: bool = True) -> ListColumn:
    """Returns a column with a time, by which users can sort the list."""
    get = attrgetter(attribute)
    return ListColumn(
        title.lower(),
        title,
        lambda _request, row: short_moment(get(row)),
        Place.TIME,
        is_default=is_default,
        sorts=BY_TIME,
    )


class Outcome(msgspec.Struct, frozen=True):
    """A status for which the list shows a separate count and sum, such as paid or failed."""

    label: str
    status: str
    tone: str


class ShownOutcome(msgspec.Struct, frozen=True):
    outcome: Outcome
    count: int
    sums: str
    url: str  # the URL that sets or removes the status filter
    is_here: bool


class RecordList(msgspec.Struct, frozen=True):
    name: str  # the key of the users' column choices in the database
    noun: str
    columns: tuple[ListColumn, ...]
    fetch: Callable[Concatenate[Reads, ...], Awaitable[Page[Any]]]
    # The function that counts and sums the rows, or None if counting would be slow.
    totals: Callable[Concatenate[Reads, ...], Awaitable[Totals]] | None
    # The statuses for which the list shows separate totals.
    outcomes: tuple[Outcome, ...] = ()
    status_field: str = "status"

    async def show(
        self,
        request: PageRequest,
        template: str,
        export: Columns[Any],
        about: Sequence[Any],
        wanted: RecordFilter,
        filters: Sequence[ListFilter] = (),
        *,
        views: Sequence[str] = (),
        prepare: Callable[[list[Any]], Awaitable[list[Any]]] | None = None,
        file_name: str = "",
        **values: Any,
    ) -> PageResponse:
        """Shows a page of the list, or exports the whole list in its default order.

        `fetch` and `totals` are called with `request.reads`, `about` and `wanted`. `prepare` adds
        data to the rows that the cells and the export need.
        """
        usual = type(wanted)().sort
        if exports.is_wanted(request):
            ordered = msgspec.structs.replace(wanted, sort=usual)
            pages = in_pages(partial(self._rows, prepare), request.reads, *about, ordered)
            file_name = file_name or self.name.replace("_", "-")
            return exports.send(request, file_name, export, pages)
        totals, everything = await self._totals(request, about, wanted)
        is_sortable = self.totals is None or (totals is not None and totals.is_exact)
        ordered = msgspec.structs.replace(wanted, sort=wanted.sort if is_sortable else usual)
        after = lists.after(request)
        found = await self._rows(prepare, request.reads, *about, ordered, after=after)
        chosen = await list_columns.columns_of(request.db, request.visitor.person_id, self.name)
        view = RecordListView(request, found.next, self, chosen, wanted, views)
        view.filters, view.is_sorted = filters, ordered.sort is wanted.sort
        view.summary = "" if self.totals is None else self._summary(totals)
        view.outcomes = [] if everything is None else self._outcomes(view, everything)
        return request.page(template, rows=found.rows, listing=view, **values)

    async def _totals(
        self, request: PageRequest, about: Sequence[Any], wanted: RecordFilter
    ) -> tuple[Totals | None, Totals | None]:
        """Returns the totals with all filters, and the totals without the status filter."""
        if self.totals is None:
            return None, None
        status = getattr(wanted, self.status_field, None) if self.outcomes else None
        anyhow = wanted
        if status in {each.status for each in self.outcomes}:
            anyhow = msgspec.structs.replace(wanted, **{self.status_field: None})
        found = await deadline.or_none(self.totals(request.reads, *about, anyhow))
        if anyhow is wanted:
            return found, found
        if found is None or not found.is_exact:
            return await deadline.or_none(self.totals(request.reads, *about, wanted)), None
        alone = found.by_status.get(str(status), StatusTotals())
        return Totals(alone.count, alone.sums), found

    def _summary(self, totals: Totals | None) -> str:
        if totals is None:
            return "Counting takes too long. Choose a shorter period to see the total."
        nouns = plural(self.noun)
        if not totals.is_exact:
            return f"More than {ROWS_MAX:,} {nouns}. Choose a shorter period to see the total."
        # A list that shows a total for each status shows no overall sum.
        sums = "" if self.outcomes else _sums(totals.sums)
        noun = self.noun if totals.count == 1 else nouns
        return f"{totals.count:,} {noun}" + (f", total {sums}" if sums else "")

    def _outcomes(self, view: "RecordListView", totals: Totals) -> list[ShownOutcome]:
        if not totals.is_exact:
            return []
        chosen = view.given.text(self.status_field)
        shown = []
        for each in self.outcomes:
            found, is_here = (
                totals.by_status.get(each.status, StatusTotals()),
                chosen == each.status,
            )
            url = view.with_values(**{self.status_field: "" if is_here else each.status})
            shown.append(ShownOutcome(each, found.count, _sums(found.sums), url, is_here))
        return [each for each in shown if each.count or each.is_here]

    async def _rows(
        self,
        prepare: Callable[[list[Any]], Awaitable[list[Any]]] | None,
        reads: Reads,
        *arguments: Any,
        **more: Any,
    ) -> Page[Any]:
        page = await self.fetch(reads, *arguments, **more)
        return page if prepare is None else Page(await prepare(page.rows), page.next)


class RecordListView(ListView):
    """The values that a list's template uses, except the rows."""

    filters: Sequence[ListFilter]
    is_sorted: bool  # False if the list has too many rows to be sorted
    summary: str
    outcomes: Sequence[ShownOutcome]

    def __init__(
        self,
        request: PageRequest,
        following: str | None,
        shown: RecordList,
        chosen: Sequence[str] | None,
        wanted: RecordFilter,
        views: Sequence[str],
    ) -> None:
        super().__init__(request, following, views=(*views, "sort"))
        self.name, self.noun, self.nouns = shown.name, shown.noun, plural(shown.noun)
        self.all_columns = shown.columns
        names = {column.name for column in shown.columns if column.is_default}
        names = names if chosen is None else set(chosen)
        self.columns = [column for column in shown.columns if column.name in names]
        self.columns = self.columns or list(shown.columns)
        self.shown = {column.name for column in self.columns}
        if all(column.place is not Place.NAME for column in self.columns):
            self.columns[0] = msgspec.structs.replace(self.columns[0], place=Place.NAME)
        self.has_amounts = isinstance(wanted, AmountFilter)
        self.sort = wanted.sort
        self.pager = PAGER.get(wanted.sort, ("First page", "Next"))
        self.period_options = list(lists.PERIODS.items())
        self.periods = [
            (label, self.with_values(period=name, since="", until=""), self.period == name)
            for name, label in lists.PERIODS.items()
        ]

    @property
    def chosen(self) -> list[tuple[str, str]]:
        """The labels of the active filters, each with the URL that removes the filter."""
        labels = {**RANGES, **{filter.name: filter.label for filter in self.filters}}
        texts = {
            (filter.name, option[0]): option[1]
            for filter in self.filters
            for option in filter.options
        }
        fixed = {filter.name for filter in self.filters if filter.value}
        return [
            (f"{labels[name]}: {texts.get((name, value), value)}", self.with_values(**{name: ""}))
            for name, value in self._pairs
            if name in labels and name not in fixed
        ]

    def sort_url(self, column: ListColumn) -> str:
        """Returns the URL that sorts the list by this column, or reverses the column's order."""
        current = column.sorts.index(self.sort) if self.sort in column.sorts else -1
        return self.with_values(sort=column.sorts[(current + 1) % len(column.sorts)])

    def direction(self, column: ListColumn) -> str | None:
        """Returns the value of `aria-sort`, or None if the list is not sorted by the column."""
        if not self.is_sorted or self.sort not in column.sorts:
            return None
        return "descending" if self.sort in FALLING else "ascending"


def read_amounts(
    request: PageRequest, kind: type[Amounts], *names: str, currency: str = ""
) -> Amounts:
    """Parses a list's filters. Amounts are in `currency`, by default the filter's currency."""
    wanted = lists.read_filter(request, kind, *names)
    unit = currency or request.query.text("currency") or DEFAULT_CURRENCY
    bounds = {
        f"{name}_minor": request.query.money(name, unit).minor
        for name in ("min", "max")
        if request.query.text(name)
    }
    return msgspec.structs.replace(wanted, **bounds)


def choices(values: Sequence[str]) -> list[tuple[str, str]]:
    return [(value, value.replace("_", " ").capitalize()) for value in values]


def currency_filter(codes: Sequence[str]) -> list[ListFilter]:
    """Returns the currency filter, or an empty list if there is only one currency."""
    options = [(code, code) for code in codes]
    return [ListFilter("currency", "Currency", options)] if len(codes) > 1 else []


async def choose_columns(request: PageRequest) -> PageResponse:
    """Saves the user's choice of columns for a list."""
    columns = request.form.all("column")[:COLUMNS_MAX]
    name = request.parameter("list")
    if all(len(text) <= NAME_LENGTH_MAX for text in (*columns, name)):
        kept = [] if "default" in request.form else columns
        await list_columns.choose(request.db, request.visitor.person_id, name, kept)
    onward = request.form.text("next", at_most=2000)
    return request.redirect(safe_path(request.layout, onward, "/"))


def plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def _sums(sums: Sequence[Money]) -> str:
    return " and ".join(money(total) for total in sums)
