"""Reconciliation pages: each day's totals, what does not match, and a sheet to sign."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime

from litestar import Response

from manilla.console.providers import titles
from manilla.kit.fields import Fields
from manilla.reconciliation import days, unmatched
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.unmatched import Unmatched
from manilla.web import exports
from manilla.web.page_request import NO_STORE, PageNotFound, PageRequest, PageResponse

DAYS_SHOWN = 60

COLUMNS = Fields(Unmatched).select(
    "provider currency booked_at kind reference finding ledger statement difference line_ids"
    " description"
)
DAY_COLUMNS = Fields(ReconciledDay, day=lambda row: row.day.isoformat()).select(
    "provider currency day lines movements statement ledger difference ledger_balance"
    " provider_balance open_lines open_movements result"
)


async def show_all(request: PageRequest) -> PageResponse:
    provider = request.query.text("provider") or None
    rows = await days.days(request.db, provider, limit=DAYS_SHOWN)
    if exports.is_wanted(request):
        return exports.send(request, "reconciliation", DAY_COLUMNS, _once(rows))
    return request.page("reconciliation.html", rows=rows, titles=titles(request), provider=provider)


async def show_day(request: PageRequest) -> PageResponse:
    day = await _day(request)
    rows = await unmatched.of_day(request.db, day)
    if exports.is_wanted(request):
        name = f"reconciliation-{day.provider}-{day.day}"
        return exports.send(request, name, COLUMNS, _once(rows))
    return request.page("reconciliation_day.html", day=day, rows=rows, titles=titles(request))


async def send_sheet(request: PageRequest) -> PageResponse:
    day = await _day(request)
    rows = await unmatched.of_day(request.db, day)
    title = titles(request).get(day.provider, day.provider)
    content = await asyncio.to_thread(_draw, day, rows, title)
    name = f"reconciliation-{day.provider}-{day.currency}-{day.day}.pdf"
    return Response(
        content,
        media_type="application/pdf",
        headers={"Content-Disposition": f'inline; filename="{name}"', **NO_STORE},
    )


def _draw(day: ReconciledDay, rows: list[Unmatched], title: str) -> bytes:
    # Import the PDF library for the first PDF only, because it is slow to load.
    from manilla.console import sign_off

    return sign_off.draw(day, rows, title, datetime.now(UTC))


async def _day(request: PageRequest) -> ReconciledDay:
    try:
        day = date.fromisoformat(request.parameter("day"))
    except ValueError:
        raise PageNotFound from None
    provider, currency = request.parameter("provider"), request.parameter("currency")
    found = await days.find(request.db, provider, currency, day)
    if found is None:
        raise PageNotFound
    return found


async def _once(rows: list[exports.Row]) -> AsyncIterator[list[exports.Row]]:
    yield rows
