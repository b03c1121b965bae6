"""Pages of bulk payouts: upload, review, confirm and follow the progress."""

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from litestar import Response

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.methods.method import Method, MethodKind
from manilla.payouts.bulk import batches, file, store
from manilla.payouts.bulk.store import Batch, BatchRow, BatchStatus, RowState
from manilla.providers.port import Bank
from manilla.web import exports, lists
from manilla.web.forms import BadForm
from manilla.web.page_request import NO_STORE, PageNotFound, PageRequest, PageResponse

ROWS = 100
BATCHES = 20
# maximum size of the form: the file and the other fields
UPLOAD_BYTES_MAX = file.BYTES_MAX + 64 * 1024
BANK_OF_EXAMPLE = "GTBank"

COLUMNS = store.ROW_FIELDS.select(
    "row result remark trx_id payout_status amount bank_code account_number name reference"
    " description"
)


async def show_all(request: PageRequest) -> PageResponse:
    return request.page("bulk.html", **await _overview(request))


async def send_template(request: PageRequest) -> PageResponse:
    method, banks = await _method_and_banks(request)
    code = next((bank.code for bank in banks), BANK_OF_EXAMPLE)
    amount = f"{method.minimum.amount:f}"
    example = [amount, code, "0123456789", "Ada Obi", "INVOICE-1", "July"]
    return _file(f"payouts-{method.code}.csv", [list(file.COLUMNS), example])


async def send_banks(request: PageRequest) -> PageResponse:
    method, banks = await _method_and_banks(request)
    lines = [["bank_code", "bank_name"], *([bank.code, bank.name] for bank in banks)]
    return _file(f"banks-{method.code}.csv", lines)


async def upload(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    try:
        uploaded = request.form.file("file")
        if uploaded is None or not uploaded.filename:
            raise BadForm(errors={"file": "Choose a file."})
        batch_id = await batches.draft(
            request.db,
            request.services.previews,
            caller,
            request.services.previews.method(caller, request.form.integer("method")),
            file_name=uploaded.filename,
            raw=await uploaded.read(),
            uploaded_by=request.visitor.email,
        )
    except Refusal as refusal:
        return request.form_with_errors("bulk.html", refusal, **await _overview(request))
    return request.redirect(f"~/payouts/bulk/{batch_id}")


async def show(request: PageRequest) -> PageResponse:
    batch = await _batch(request)
    if exports.is_wanted(request):
        pages = batches.all_rows(request.db, batch, _state(request))
        return exports.send(request, batch.id, COLUMNS, pages)
    coverage, failing = None, []
    if batch.status is BatchStatus.DRAFT and batch.ready:
        coverage = await batches.coverage(request.db, batch)
        failing = await _failing(request, batch)
    about = await _progress(request, batch)
    return request.page("batch.html", coverage=coverage, failing=failing, **about)


async def _failing(request: PageRequest, batch: Batch) -> list[str]:
    """Says to which banks of the file transfers are failing right now."""
    method = request.services.methods.by_id(MethodKind.WITHDRAW, batch.method_id)
    if method is None:
        return []
    codes = await store.bank_codes(request.db, batch)
    return await request.services.previews.failing(await request.caller(), method, codes)


async def show_progress(request: PageRequest) -> PageResponse:
    """Renders the parts of the page that change while rows are paid; 204 if none changed."""
    batch = await _batch(request)
    about = await _progress(request, batch)
    if request.query.text(lists.KNOWN) == about["known"]:
        return Response(None, status_code=204, headers=NO_STORE)
    return request.page("batch_progress.html", **about)


async def _progress(request: PageRequest, batch: Batch) -> dict[str, Any]:
    after = request.query.integer(lists.AFTER) if lists.AFTER in request.query else 0
    rows = await store.rows(
        *(request.db, batch.merchant_id, batch.id),
        state=_state(request),
        after=after,
        limit=ROWS + 1,
    )
    following = str(rows[ROWS - 1].number) if len(rows) > ROWS else None
    outcomes = await store.outcomes(request.db, batch.merchant_id, batch.id)
    return {
        "batch": batch,
        "outcomes": outcomes,
        "rows": rows[:ROWS],
        "bank_name": _bank_name(request, batch),
        "listing": lists.ListView(request, following, request.at(f"~/payouts/bulk/{batch.id}")),
        "known": f"{batch.status}-{batch.decided}-{outcomes.final}",
    }


def _bank_name(request: PageRequest, batch: Batch) -> Callable[[str], str | None]:
    """Returns a function that names the bank of a code of the batch's method."""
    method = request.services.methods.by_id(MethodKind.WITHDRAW, batch.method_id)
    provider = None if method is None else method.provider
    is_sandbox = batch.environment is Environment.SANDBOX
    return lambda code: request.services.banks.name_at(provider, code, is_sandbox=is_sandbox)


async def send_unpaid(request: PageRequest) -> PageResponse:
    """Downloads the rows that were not debited, as a file to correct and upload again."""
    batch = await _batch(request)
    lines = [
        [exports.plain(cell) for cell in _cells(row, batch)]
        async for page in batches.all_rows(request.db, batch)
        for row in page
        if row.state in (RowState.REFUSED, RowState.FAULTY)
    ]
    return _file(f"{batch.id}-not-paid.csv", [list(file.COLUMNS), *lines])


async def confirm(request: PageRequest) -> PageResponse:
    """Confirms the batch. A second click has no effect."""
    batch = await _batch(request)
    try:
        await batches.confirm(
            request.db,
            request.tenant,
            batch.id,
            by=request.visitor.email,
            only_first=request.form.integer("rows") if "rows" in request.form else None,
        )
    except Refusal as refusal:
        return request.redirect(f"~/payouts/bulk/{batch.id}", failed=refusal.text)
    return request.redirect(f"~/payouts/bulk/{batch.id}", done="Payment started.")


async def _overview(request: PageRequest) -> dict[str, Any]:
    return {
        "methods": request.services.previews.methods(await request.caller()),
        "batches": await store.batches(request.db, request.tenant, BATCHES),
        "columns": file.COLUMNS,
    }


async def _batch(request: PageRequest) -> Batch:
    try:
        return await batches.find(request.db, request.tenant, request.parameter("batch"))
    except batches.BatchNotFound:
        raise PageNotFound from None


async def _method_and_banks(request: PageRequest) -> tuple[Method, Sequence[Bank]]:
    caller, previews = await request.caller(), request.services.previews
    for method in previews.methods(caller):
        if method.id == int(request.parameter("method")):
            return method, await previews.banks(caller, method)
    raise PageNotFound


def _state(request: PageRequest) -> RowState | None:
    return request.query.choice("state", RowState) if request.query.text("state") else None


def _cells(row: BatchRow, batch: Batch) -> list[str]:
    """Returns a row's cells in the order of the file's columns.

    The row keeps its reference, so that a row that is uploaded twice is paid once.
    """
    amount = Money(batch.currency, row.amount_minor).amount
    return [
        row.amount_text if row.state is RowState.FAULTY else f"{amount:f}",
        *(row.bank_code, row.account_number, row.name, row.ref_trx, row.description),
    ]


def _file(name: str, lines: list[list[str]]) -> PageResponse:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(lines)
    # Spreadsheet programs need the byte order mark to detect UTF-8.
    return exports.attachment(name, exports.CSV_TYPE, buffer.getvalue().encode("utf-8-sig"))
