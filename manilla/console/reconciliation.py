"""Reconciliation pages: daily figures, statement import, sign-off and the PDF report."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from typing import Any

from manilla.console.providers import titles
from manilla.kit import deadline, time_limits
from manilla.kit.errors import Refusal, Unavailable
from manilla.people.roles import Permission
from manilla.proofs import anchors
from manilla.proofs.anchors import Heads
from manilla.reconciliation import files, importing, lines, reports, signing, unmatched
from manilla.reconciliation.files import BadStatement
from manilla.reconciliation.lines import ImportResult
from manilla.reconciliation.reports import DayReport
from manilla.reconciliation.unmatched import Unmatched
from manilla.web import exports
from manilla.web.forms import BadForm
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

DAYS_SHOWN = 60
FILE_BYTES_MAX = 8 * 1024 * 1024  # about 80,000 lines; the command line accepts larger files
FORM_BYTES_MAX = FILE_BYTES_MAX + 64 * 1024
FILE_ENDINGS = (".csv", ".txt")


async def show_all(request: PageRequest) -> PageResponse:
    provider = request.query.text("provider") or None
    rows = await reports.reports(request.reads, provider, limit=DAYS_SHOWN)
    if exports.is_wanted(request):
        return exports.send(request, "reconciliation", reports.COLUMNS, _once(rows))
    return request.page("reconciliation.html", rows=rows, titles=titles(request), provider=provider)


async def show_import(request: PageRequest) -> PageResponse:
    return request.page("reconciliation_import.html", **_about_import(request))


async def import_file(request: PageRequest) -> PageResponse:
    try:
        provider = request.form.text("provider")
        if provider not in request.services.rails.accounts:
            raise BadForm(errors={"provider": "Choose an account."})
        raw = _uploaded(request)
        result = await _import(request, provider, raw)
    except BadStatement as refusal:
        shown = BadForm(errors={"file": refusal.summary or refusal.text})
        about = {**_about_import(request), "bad_rows": refusal.rows}
        return request.form_with_errors("reconciliation_import.html", shown, **about)
    except Refusal as refusal:
        about = _about_import(request)
        return request.form_with_errors("reconciliation_import.html", refusal, **about)
    return request.redirect("/reconciliation", done=_imported(result), query={"provider": provider})


def _about_import(request: PageRequest) -> dict[str, Any]:
    return {
        "accounts": _accounts(request),
        "chosen": request.query.text("provider"),
        "needed": files.NEEDED,
        "optional": files.OPTIONAL,
        "size_max": f"{FILE_BYTES_MAX >> 20} MiB",
        "bad_rows": (),
    }


def _accounts(request: PageRequest) -> list[tuple[str, str]]:
    """Returns the provider accounts' names and titles, configured accounts first."""
    accounts = request.services.rails.accounts
    names = sorted(accounts, key=lambda name: not accounts[name].is_valid)
    return [(name, accounts[name].title) for name in names]


def _uploaded(request: PageRequest) -> bytes:
    file = request.form.file("file")
    if not file.name.lower().endswith(FILE_ENDINGS):
        text = "Choose a CSV file. Save a spreadsheet as CSV in UTF-8 first."
        raise BadForm(errors={"file": text})
    if len(file.content) > FILE_BYTES_MAX:
        text = f"The file is over {FILE_BYTES_MAX >> 20} MiB. Use `manilla reconcile import`."
        raise BadForm(errors={"file": text})
    return file.content


async def _import(request: PageRequest, provider: str, raw: bytes) -> ImportResult:
    """Imports a provider statement on a separate database connection with longer time limits."""
    services, seconds = request.services, time_limits.current.import_seconds
    try:
        with deadline.limited(seconds):
            async with asyncio.timeout(seconds), services.patient(seconds) as db:
                adapter = services.rails.adapter(provider)
                return await importing.import_file(db, provider, raw, adapter)
    except (TimeoutError, Unavailable):
        raise Unavailable(
            "The import took too long. Upload the file again, or import it with the command "
            "“manilla reconcile import”. No line is stored twice."
        ) from None


def _imported(result: ImportResult) -> str:
    known = result.lines - result.new - result.changed
    changed = f", {result.changed} changed" if result.changed else ""
    lines_ = "1 line" if result.lines == 1 else f"{result.lines} lines"
    return f"Imported {lines_}: {result.new} new, {known} already known{changed}."


async def show_day(request: PageRequest) -> PageResponse:
    report = await _report(request)
    if exports.is_wanted(request):
        rows = await unmatched.of_day(request.reads, report.day)
        name = f"reconciliation-{report.day.provider}-{report.day.day}"
        listed = list(reports.file_rows(report, rows))
        return exports.send(request, name, reports.FILE_COLUMNS, _once(listed))
    return request.page("reconciliation_day.html", **await _about_day(request, report))


async def sign(request: PageRequest) -> PageResponse:
    report = await _report(request)
    day = report.day
    try:
        await signing.sign(
            request.db,
            day.provider,
            day.currency,
            day.day,
            note=request.form.text("note", at_most=signing.NOTE_LENGTH_MAX),
            seen=request.form.text("seen"),
        )
    except Refusal as refusal:
        about = await _about_day(request, report)
        return request.form_with_errors("reconciliation_day.html", refusal, **about)
    return request.redirect(_path(report), done=f"You signed off {day.day}.")


async def _about_day(request: PageRequest, report: DayReport) -> dict[str, Any]:
    is_over = report.day.day < lines.day_of(datetime.now(UTC))
    return {
        "report": report,
        "day": report.day,
        "rows": await unmatched.of_day(request.reads, report.day),
        "sign_offs": await signing.of_day(request.reads, report.day),
        "may_sign": request.may(Permission.MONEY_ALONE) and is_over,
        "is_over": is_over,
        "seen": signing.digest(report.day),
        "note_length_max": signing.NOTE_LENGTH_MAX,
        "titles": titles(request),
        "path": request.at(_path(report)),
    }


async def send_sheet(request: PageRequest) -> PageResponse:
    report = await _report(request)
    rows = await unmatched.of_day(request.reads, report.day)
    title = titles(request).get(report.day.provider, report.day.provider)
    heads = await anchors.heads(request.db)
    content = await asyncio.to_thread(_draw, report, rows, title, heads)
    name = f"reconciliation-{report.day.provider}-{report.day.currency}-{report.day.day}.pdf"
    return PageResponse(
        content,
        media_type="application/pdf",
        headers={"Content-Disposition": f'inline; filename="{name}"', **NO_STORE},
    )


def _draw(report: DayReport, rows: list[Unmatched], title: str, heads: Heads) -> bytes:
    # The PDF library loads slowly, so it is imported only when the first PDF is created.
    from manilla.console import sign_off

    return sign_off.draw(report, rows, title, heads, datetime.now(UTC))


async def _report(request: PageRequest) -> DayReport:
    try:
        day = date.fromisoformat(request.parameter("day"))
    except ValueError:
        raise PageNotFound from None
    provider, currency = request.parameter("provider"), request.parameter("currency")
    found = await reports.find(request.reads, provider, currency, day)
    if found is None:
        raise PageNotFound
    return found


def _path(report: DayReport) -> str:
    day = report.day
    return f"/reconciliation/{day.provider}/{day.currency}/{day.day}"


async def _once(rows: list[exports.Row]) -> AsyncIterator[list[exports.Row]]:
    yield rows
