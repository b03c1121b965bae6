"""Margin pages: what was earned, what providers took, and which transactions lost money."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from manilla.console import list_pages
from manilla.console.providers import titles
from manilla.kit.clock import LAGOS
from manilla.kit.fields import insert_after
from manilla.kit.listing import in_pages
from manilla.margin import figures, totals, transactions
from manilla.margin.figures import MarginFilter, MarginGroup, MarginRow
from manilla.merchants import roster
from manilla.methods.method import MethodKind
from manilla.web import exports, lists
from manilla.web.charts import Chart, ChartSeries, money_unit
from manilla.web.forms import BadForm, Form
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

PERIODS = {"7days": "7 days", "30days": "30 days", "month": "This month", "last": "Last month"}
DEFAULT = "30days"
SHOWN_MAX = 200  # the maximum number of rows on the page; exports have all rows
CHART_DAYS_MAX = 92  # the chart of a longer period has one point per month
BEHIND_MIN = 10_000  # with more uncounted postings, the page says that figures are missing
TABS = {
    MarginGroup.WAY: "By way to pay",
    MarginGroup.PROVIDER: "By provider",
    MarginGroup.MERCHANT: "By merchant",
    MarginGroup.DAY: "By day",
}


async def show(request: PageRequest) -> PageResponse:
    wanted = read_filter(request)
    if exports.is_wanted(request):
        found = await figures.rows(request.reads, wanted, MarginGroup.DETAIL)
        return await _send(request, found)
    by = _group(request)
    rows = await figures.rows(request.reads, wanted, by)
    days = await figures.rows(request.reads, wanted, MarginGroup.DAY)
    assert wanted.currency is not None
    return request.page(
        "margin.html",
        rows=rows[:SHOWN_MAX],
        hidden=len(rows) - SHOWN_MAX,
        by=by,
        tabs=TABS,
        total=figures.total(wanted.currency, days),
        chart=_chart(wanted, days),
        is_behind=await totals.count_waiting(request.reads) > BEHIND_MIN,
        merchants=await roster.names(request.reads, [r.merchant_id for r in rows if r.merchant_id]),
        **common(request, wanted),
    )


async def show_losses(request: PageRequest) -> PageResponse:
    """Lists the transactions whose provider took more than they were charged."""
    wanted = read_filter(request)
    if exports.is_wanted(request):
        found = in_pages(transactions.losses, request.reads, wanted)
        return exports.send(request, "losses", transactions.LOSSES, found)
    page = await transactions.losses(request.reads, wanted, after=lists.after(request))
    return request.page(
        "margin_losses.html",
        rows=page.rows,
        merchants=await roster.names(request.reads, [each.merchant_id for each in page.rows]),
        **common(request, wanted, page.next),
    )


def read_filter(request: PageRequest) -> MarginFilter:
    scope, given = list_pages.money_scope(request), form_of(request)
    since, until = _period(given)
    wanted = MarginFilter(
        since=since,
        until=until,
        environment=request.environment,
        currency=_currency(request, given),
        merchant_id=scope.merchant_id,
        method_code=given.text("method") or None,
        provider=given.text("provider") or None,
    )
    if not wanted.is_possible:
        raise BadForm(errors={"until": figures.BadPeriod.message})
    return wanted


def form_of(request: PageRequest) -> Form:
    return request.form if request.http.method == "POST" else request.query


def common(
    request: PageRequest, wanted: MarginFilter, following: str | None = None
) -> dict[str, Any]:
    """Returns what the templates of all margin pages use."""
    names = request.services.methods.names
    return {
        "wanted": wanted,
        "listing": ListView(request, following, views=("environment", "by")),
        "periods": PERIODS,
        "period": _chosen_period(form_of(request)),
        "currency_options": [(code, code) for code in _currencies(request)],
        "methods": {**names(MethodKind.WITHDRAW), **names(MethodKind.DEPOSIT)},
        "providers": titles(request),
        "shown_environment": wanted.environment,
    }


def _chosen_period(query: Form) -> str:
    if query.text("since") or query.text("until"):
        return ""
    return query.text("period") if query.text("period") in PERIODS else DEFAULT


def _period(query: Form) -> tuple[date, date]:
    """Returns the first and the last day of the chosen period."""
    today = datetime.now(LAGOS).date()
    month = today.replace(day=1)
    match _chosen_period(query):
        case "":
            until = _day(query, "until") or today
            return _day(query, "since") or until.replace(day=1), until
        case "month":
            return month, today
        case "last":
            return (month - timedelta(days=1)).replace(day=1), month - timedelta(days=1)
        case "7days":
            return today - timedelta(days=6), today
    return today - timedelta(days=29), today


def _day(query: Form, name: str) -> date | None:
    start = lists.day(query, name)
    return None if start is None else start.astimezone(LAGOS).date()


def _group(request: PageRequest) -> MarginGroup:
    by = request.query.text("by")
    return MarginGroup(by) if by in TABS else MarginGroup.WAY


def _currencies(request: PageRequest) -> list[str]:
    return request.services.methods.currencies or ["NGN"]


def _currency(request: PageRequest, given: Form) -> str:
    known, chosen = _currencies(request), given.text("currency")
    return chosen if chosen in known else "NGN" if "NGN" in known else known[0]


def _chart(wanted: MarginFilter, rows: Sequence[MarginRow]) -> Chart:
    """Returns the chart of what was earned and paid, by day, or by month in a long period."""
    assert wanted.currency is not None
    is_long = wanted.days > CHART_DAYS_MAX
    sums: dict[date, list[MarginRow]] = {}
    for number in range(wanted.days):
        day = wanted.since + timedelta(days=number)
        sums.setdefault(day.replace(day=1) if is_long else day, [])
    for row in rows:
        assert row.day is not None
        sums[row.day.replace(day=1) if is_long else row.day].append(row)
    points = [figures.total(wanted.currency, parts) for parts in sums.values()]
    return Chart(
        title="Earned and paid by month" if is_long else "Earned and paid by day",
        points=[f"{day:%b %Y}" if is_long else f"{day:%a, %-d %b}" for day in sums],
        ticks=[f"{day:%b %Y}" if is_long else f"{day:%-d %b}" for day in sums],
        series=[
            ChartSeries("Earned", [each.earned_minor for each in points]),
            ChartSeries("Paid to providers", [each.paid_minor for each in points]),
        ],
        unit=money_unit(wanted.currency),
        is_bars=False,
        nothing="No fees in this period",
    )


async def _send(request: PageRequest, rows: list[MarginRow]) -> exports.ExportFile:
    owners = {row.merchant_id for row in rows if row.merchant_id}
    names = await roster.names(request.reads, sorted(owners))
    columns = insert_after(
        figures.columns(MarginGroup.DETAIL), "merchant_id", "merchant", merchant_name(names)
    )

    async def pages() -> AsyncIterator[list[MarginRow]]:
        yield rows

    return exports.send(request, "margin", columns, pages())


def merchant_name(names: dict[int, str]) -> Callable[[Any], str]:
    return lambda row: names.get(row.merchant_id or 0, "")
