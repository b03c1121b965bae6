"""Renders list pages, with filters from the query string and keyset pagination."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec

from manilla.kit import listing
from manilla.kit.clock import start_of_day
from manilla.kit.fields import Columns
from manilla.kit.listing import Page, in_pages
from manilla.web import exports
from manilla.web.forms import BadForm, Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

ROWS = listing.PAGE_ROWS
ZONE = ZoneInfo("Africa/Lagos")  # the time zone of date filters
AFTER, KNOWN = "after", "known"
NO_FILTERS = (AFTER, exports.FORMAT, KNOWN)
PERIOD = "period"
PERIODS = {"today": "Today", "7days": "7 days", "month": "This month"}


Row = TypeVar("Row")
Filter = TypeVar("Filter", bound=msgspec.Struct)


class ListView:
    """The filters and URLs that a list's template uses."""

    def __init__(
        self,
        request: PageRequest,
        following: str | None,
        path: str | None = None,
        *,
        views: Sequence[str] = (),
    ) -> None:
        """Computes the list's URLs from the request's query.

        `path` is the path of the whole page if the request renders only a part of the page. `views`
        names the query parameters that remain when the user clears the filters.
        """
        self.given: Form = request.query
        self._path = path or request.http.path
        pairs = [pair for pair in request.query.pairs() if pair[1] and pair[0] not in NO_FILTERS]
        self._pairs = pairs
        self.is_filtered = any(pair[0] not in views for pair in pairs)
        self.is_later = AFTER in request.query
        self.kept = [pair for pair in pairs if pair[0] in views]
        kept = urlencode(self.kept)
        self.unfiltered_url = f"{self._path}?{kept}" if kept else self._path
        self.here = self._address(*(pair for pair in request.query.pairs() if pair[0] == AFTER))
        self.first_url = self._address()
        self.next_url = self._address((AFTER, following)) if following else None
        self.csv_url = self._address((exports.FORMAT, "csv"))
        self.xlsx_url = self._address((exports.FORMAT, "xlsx"))

    @property
    def period(self) -> str:
        """The period that the user chose, or "" if the user entered dates instead."""
        dates = self.given.text("since") or self.given.text("until")
        return "" if dates else self.given.text(PERIOD)

    def with_values(self, **changed: str) -> str:
        """Returns the URL of this list with these query parameters changed."""
        kept = [pair for pair in self._pairs if pair[0] not in changed]
        given = [pair for pair in changed.items() if pair[1]]
        return f"{self._path}?{urlencode([*kept, *given])}"

    def _address(self, *more: tuple[str, str]) -> str:
        query = urlencode([*self._pairs, *more])
        return f"{self._path}?{query}" if query else self._path


async def show(
    request: PageRequest,
    template: str,
    name: str,
    columns: Columns[Row],
    fetch: Callable[..., Awaitable[Page[Row]]],
    *,
    views: Sequence[str] = (),
    more: Callable[[ListView, list[Row]], Awaitable[dict[str, Any]]] | None = None,
    **values: Any,
) -> PageResponse:
    """Shows one page of a list, or sends the whole list as a file if the request is an export.

    `fetch` loads one page; it accepts the arguments `after` and `limit`. `more` returns additional
    template values that depend on the rows.
    """
    if exports.is_wanted(request):
        return exports.send(request, name, columns, in_pages(fetch))
    found = await fetch(after=after(request))
    view = ListView(request, found.next, views=views)
    if more is not None:
        values |= await more(view, found.rows)
    return request.page(template, rows=found.rows, listing=view, **values)


def after(request: PageRequest) -> str | None:
    """Returns the cursor after which this page starts, or None for the first page."""
    return request.query.text(AFTER, at_most=500) or None


def read_filter(request: PageRequest, kind: type[Filter], *names: str) -> Filter:
    """Parses a list's filter, sort order, search text and dates from the query string."""
    given = {name: request.query.text(name) for name in (*names, "sort")}
    wanted = listing.read_filter(kind, {**given, "search": request.query.text("q")})
    since, until = _days(request)
    return msgspec.structs.replace(wanted, since=since, until=until)


def common_filters(request: PageRequest) -> dict[str, Any]:
    """Parses the filters that most lists have: start date, end date and search text."""
    since, until = _days(request)
    return {"since": since, "until": until, "search": request.query.text("q") or None}


def _days(request: PageRequest) -> tuple[datetime | None, datetime | None]:
    """Returns the start and end of the date filter, or of the chosen period if no dates are set."""
    since, until = day(request.query, "since"), day(request.query, "until", is_end=True)
    period = request.query.text(PERIOD)
    if since is not None or until is not None or period not in PERIODS:
        return since, until
    today = datetime.now(ZONE).date()
    first = {"7days": today - timedelta(days=6), "month": today.replace(day=1)}
    return start_of_day(first.get(period, today)), None


def day(form: Form, name: str, *, is_end: bool = False) -> datetime | None:
    """Parses a date field. Returns the start of that day or, if `is_end`, of the next day."""
    given = form.text(name)
    if not given:
        return None
    try:
        start = datetime.strptime(given, "%Y-%m-%d").replace(tzinfo=ZONE)
        return (start + timedelta(days=is_end)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadForm(errors={name: "Enter a date, such as 2026-01-31."}) from None
