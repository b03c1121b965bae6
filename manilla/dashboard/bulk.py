"""Bulk payout pages: the list of payout files, the upload, and downloads."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from manilla.bulk import batches, drafts, file, listing
from manilla.bulk.drafts import Drafting
from manilla.bulk.listing import BatchFilter
from manilla.bulk.store import Batch, BatchRow, BatchStatus, RowState
from manilla.dashboard import uploads
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.kit.fields import plain
from manilla.kit.money import Money
from manilla.methods.method import Method
from manilla.providers.port import Bank
from manilla.web import exports, lists, table_cells
from manilla.web.display import badge
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

# The maximum size of an upload: the payout file and the other fields of the form.
UPLOAD_BYTES_MAX = file.BYTES_MAX + 2 * 1024 * 1024
BANK_OF_EXAMPLE = "GTBank"
# If a row's payout was canceled, this suffix makes the reference of the next payout unique.
AGAIN = "-2"

Line = Sequence[str]


STATES = {
    BatchStatus.DRAFT: ("inactive", "Not confirmed"),
    BatchStatus.ASKED: ("pending", "Waiting for approval"),
    BatchStatus.RUNNING: ("pending", "In progress"),
    BatchStatus.DONE: ("completed", "Done"),
    BatchStatus.REFUSED: ("failed", "Rejected"),
}


def _file(request: PageRequest, row: Batch) -> Markup:
    return table_cells.link(request, f"~/payouts/bulk/{row.id}", row.file_name)


def _status(_request: PageRequest, row: Batch) -> Markup:
    tone, text = STATES[row.status]
    return badge(tone, "Stopped" if row.stopped_at else text)


def _payouts(_request: PageRequest, row: Batch) -> str:
    is_open = row.status in (BatchStatus.DRAFT, BatchStatus.ASKED)
    return str(row.payable) if is_open else f"{row.paid} of {row.rows} paid"


LIST = RecordList(
    "payout_files",
    "file",
    (
        time_column("Uploaded", "created_at"),
        ListColumn("file", "File", _file, place=Place.NAME),
        ListColumn("id", "Number", lambda _, row: row.id, is_default=False),
        ListColumn(
            "by", "Uploaded by", lambda _, row: table_cells.text(row.uploaded_by), place=Place.ASIDE
        ),
        ListColumn("status", "Status", _status, place=Place.STATUS),
        ListColumn("errors", "Errors", lambda _, row: row.faulty or "—", is_number=True),
        ListColumn("payouts", "Payouts", _payouts, is_number=True),
        ListColumn(
            "total",
            "Total with fees",
            lambda _, row: money(row.total),
            is_number=True,
            place=Place.AMOUNT,
        ),
    ),
    listing.files,
    listing.totals,
)
COLUMNS = listing.FIELDS.select(
    "id file_name status method_name uploaded_by confirmed_by created_at payable paid refused"
    " faulty currency total"
)


async def show_all(request: PageRequest) -> PageResponse:
    wanted = lists.read_filter(request, BatchFilter, "status")
    statuses = [(status.value, STATES[status][1]) for status in STATES]
    return await LIST.show(
        *(request, "bulk.html", COLUMNS, [request.tenant], wanted),
        [ListFilter("status", "Status", statuses)],
        **await _overview(request),
    )


async def send_template(request: PageRequest) -> PageResponse:
    method, banks = await _method_and_banks(request)
    bank = next((bank.name for bank in banks if bank.name), BANK_OF_EXAMPLE)
    amount = f"{method.minimum.amount:f}"
    example = [amount, bank, "0123456789", "Ada Obi", "INVOICE-1", "July"]
    return _send(
        request,
        f"payouts-{method.code}",
        {"Payouts": [file.COLUMNS, example], "Banks": _bank_lines(banks)},
    )


async def send_banks(request: PageRequest) -> PageResponse:
    method, banks = await _method_and_banks(request)
    return _send(request, f"banks-{method.code}", {"Banks": _bank_lines(banks)})


def _bank_lines(banks: Sequence[Bank]) -> list[Line]:
    return [["bank_code", "bank_name"], *([bank.code, bank.name] for bank in banks)]


async def upload(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    previews = request.services.previews
    try:
        uploaded = request.form.file("file")
        await uploads.count(request)
        method = previews.method(caller, request.form.integer("method"))
        batch_id = await drafts.draft(
            Drafting(request.db, previews, caller, method),
            file_name=uploaded.name,
            raw=uploaded.content,
            uploaded_by=request.visitor.email,
        )
    except Refusal as refusal:
        at = ((file.BadFile, "file"),)
        return request.form_with_errors(
            "bulk_upload.html", refusal, at=at, **await _overview(request)
        )
    return request.redirect(f"~/payouts/bulk/{batch_id}")


async def send_unpaid(request: PageRequest) -> PageResponse:
    """Sends a file of the unpaid rows, which the user can correct and upload again."""
    try:
        batch = await batches.find(request.db, request.tenant, request.parameter("batch"))
    except batches.BatchNotFound:
        raise PageNotFound from None
    unpaid = [
        _cells(row, batch)
        async for page in batches.all_rows(request.db, batch)
        for row in page
        if row.state in (RowState.REFUSED, RowState.FAULTY)
    ]
    lines = [[*file.COLUMNS, file.PURPOSE], *unpaid]
    if not any(line[-1] for line in unpaid):
        lines = [line[:-1] for line in lines]
    return _send(request, f"{batch.id}-not-paid", {"Payouts": lines})


def _cells(row: BatchRow, batch: Batch) -> Line:
    """Returns the cells of a row for the payout file, with its purpose as the last cell.

    The row keeps its reference, so that the payout is created only once.
    """
    amount = Money(batch.currency, row.amount_minor).amount
    reference = f"{row.ref_trx[:58]}{AGAIN}" if row.trx_id else row.ref_trx
    return [
        row.amount_text if row.state is RowState.FAULTY else f"{amount:f}",
        *(row.bank_code, row.account_number, row.name, reference, row.description),
        row.purpose or "",
    ]


async def _overview(request: PageRequest) -> dict[str, Any]:
    return {
        "methods": request.services.previews.methods(await request.caller()),
        "columns": file.COLUMNS,
        "rows_max": file.ROWS_MAX,
        "mebibytes_max": file.BYTES_MAX // file.MEBIBYTE,
    }


async def _method_and_banks(request: PageRequest) -> tuple[Method, Sequence[Bank]]:
    caller, previews = await request.caller(), request.services.previews
    for method in previews.methods(caller):
        if method.id == int(request.parameter("method")):
            return method, await previews.banks(caller, method)
    raise PageNotFound


def _send(request: PageRequest, name: str, sheets: dict[str, list[Line]]) -> PageResponse:
    """Sends the first sheet as a CSV file, or all sheets as an .xlsx file."""
    is_csv = request.query.text(exports.FORMAT) != "xlsx"
    content = _csv(next(iter(sheets.values()))) if is_csv else exports.text_workbook(sheets)
    kind = "csv" if is_csv else "xlsx"
    media_type = exports.CSV_TYPE if is_csv else exports.XLSX_TYPE
    return exports.attachment(f"{name}.{kind}", media_type, content)


def _csv(lines: Sequence[Line]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerows([plain(cell) for cell in line] for line in lines)
    # Spreadsheet programs need the byte order mark to detect UTF-8.
    return buffer.getvalue().encode("utf-8-sig")
