"""Bulk payouts: upload, review, confirm and follow the progress."""

import csv
import io
from typing import Any

from litestar import Response

from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.methods.method import Method
from manilla.payouts.bulk import batches, file, store
from manilla.payouts.bulk.store import Batch, BatchRow, BatchStatus, RowState
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web import exports, lists
from manilla.web.forms import BadForm
from manilla.web.layout import NotHere
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.routes import Answer, Route, form, page, part

ROWS = 100
BATCHES = 20
# the file and the other fields of the form
UPLOAD_BYTES_MAX = file.BYTES_MAX + 64 * 1024
BANK_OF_EXAMPLE = "GTBank"

COLUMNS = store.ROW_FIELDS.select(
    "row result remark trx_id payout_status amount bank_code account_number name reference"
    " description"
)


class BulkPages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk
        self._previews = desk.previews

    def routes(self) -> list[Route]:
        path = "/{environment:str}/payouts/bulk"
        one = path + "/{batch:str}"
        needs = Permission.MOVE_MONEY
        return [
            page(path, self.show_all, needs),
            part(path + "/template/{method:int}", self.send_template, needs),
            part(path + "/banks/{method:int}", self.send_banks, needs),
            form(path, self.upload, needs, body_bytes_max=UPLOAD_BYTES_MAX),
            page(one, self.show, needs),
            part(one + "/progress", self.show_progress, needs),
            part(one + "/not-paid", self.send_unpaid, needs),
            form(one + "/confirm", self.confirm, needs, step_up=True),
        ]

    async def show_all(self, request: PageRequest) -> Answer:
        return request.page("bulk.html", **await self._overview(request))

    async def send_template(self, request: PageRequest) -> Answer:
        caller = await self._caller(request)
        method = self._method(request, caller)
        banks = await self._previews.banks(caller, method)
        code = next((bank.code for bank in banks), BANK_OF_EXAMPLE)
        amount = f"{method.minimum.amount:f}"
        example = [amount, code, "0123456789", "Ada Obi", "INVOICE-1", "July"]
        return _file(f"payouts-{method.code}.csv", [list(file.COLUMNS), example])

    async def send_banks(self, request: PageRequest) -> Answer:
        caller = await self._caller(request)
        method = self._method(request, caller)
        banks = await self._previews.banks(caller, method)
        lines = [["bank_code", "bank_name"], *([bank.code, bank.name] for bank in banks)]
        return _file(f"banks-{method.code}.csv", lines)

    async def upload(self, request: PageRequest) -> Answer:
        caller = await self._caller(request)
        try:
            uploaded = request.form.file("file")
            if uploaded is None or not uploaded.filename:
                raise BadForm(errors={"file": "Choose a file."})
            batch_id = await batches.draft(
                self._desk.db,
                self._previews,
                caller,
                self._previews.method(caller, request.form.whole("method")),
                file_name=uploaded.filename,
                raw=await uploaded.read(),
                uploaded_by=request.visitor.email,
            )
        except Refusal as refusal:
            return request.refused("bulk.html", refusal, **await self._overview(request))
        return request.redirect(f"~/payouts/bulk/{batch_id}")

    async def show(self, request: PageRequest) -> Answer:
        batch = await self._batch(request)
        if exports.is_wanted(request):
            pages = batches.all_rows(self._desk.db, batch, _state(request))
            return exports.send(request, batch.id, COLUMNS, pages)
        coverage = None
        if batch.status is BatchStatus.DRAFT and batch.ready:
            coverage = await batches.coverage(self._desk.db, batch)
        return request.page("batch.html", coverage=coverage, **await self._progress(request, batch))

    async def show_progress(self, request: PageRequest) -> Answer:
        """Renders the parts of the page that change while rows are paid; 204 if nothing has
        changed.
        """
        batch = await self._batch(request)
        about = await self._progress(request, batch)
        if request.query.text(lists.KNOWN) == about["known"]:
            return Response(None, status_code=204, headers=NO_STORE)
        return request.page("batch_progress.html", **about)

    async def _progress(self, request: PageRequest, batch: Batch) -> dict[str, Any]:
        after = request.query.whole(lists.AFTER) if lists.AFTER in request.query else 0
        rows = await store.rows(
            *(self._desk.db, batch.merchant_id, batch.id),
            state=_state(request),
            after=after,
            limit=ROWS + 1,
        )
        following = str(rows[ROWS - 1].number) if len(rows) > ROWS else None
        outcomes = await store.outcomes(self._desk.db, batch.merchant_id, batch.id)
        return {
            "batch": batch,
            "outcomes": outcomes,
            "rows": rows[:ROWS],
            "listing": lists.ListView(request, following, request.at(f"~/payouts/bulk/{batch.id}")),
            "known": f"{batch.status}-{batch.decided}-{outcomes.final}",
        }

    async def send_unpaid(self, request: PageRequest) -> Answer:
        """Sends the rows that were not debited as a file to correct and upload again."""
        batch = await self._batch(request)
        lines = [
            [exports.plain(cell) for cell in _cells(row, batch)]
            async for page in batches.all_rows(self._desk.db, batch)
            for row in page
            if row.state in (RowState.REFUSED, RowState.FAULTY)
        ]
        return _file(f"{batch.id}-not-paid.csv", [list(file.COLUMNS), *lines])

    async def confirm(self, request: PageRequest) -> Answer:
        """Confirms the batch. A second click has no effect."""
        batch = await self._batch(request)
        try:
            tenant = Tenant(request.merchant_id, request.environment)
            await batches.confirm(
                self._desk.db,
                tenant,
                batch.id,
                by=request.visitor.email,
                only_first=request.form.whole("rows") if "rows" in request.form else None,
            )
        except Refusal as refusal:
            return request.redirect(f"~/payouts/bulk/{batch.id}", failed=refusal.text)
        return request.redirect(f"~/payouts/bulk/{batch.id}", done="Payment started.")

    async def _overview(self, request: PageRequest) -> dict[str, Any]:
        tenant = Tenant(request.merchant_id, request.environment)
        return {
            "methods": self._previews.methods(await self._caller(request)),
            "batches": await store.batches(self._desk.db, tenant, BATCHES),
            "columns": file.COLUMNS,
        }

    async def _batch(self, request: PageRequest) -> Batch:
        tenant = Tenant(request.merchant_id, request.environment)
        try:
            return await batches.find(self._desk.db, tenant, request.parameter("batch"))
        except batches.BatchNotFound:
            raise NotHere from None

    def _method(self, request: PageRequest, caller: Caller) -> Method:
        wanted = int(request.parameter("method"))
        method = next((each for each in self._previews.methods(caller) if each.id == wanted), None)
        if method is None:
            raise NotHere
        return method

    async def _caller(self, request: PageRequest) -> Caller:
        return await self._desk.directory.of(request.environment, request.merchant_id)


def _state(request: PageRequest) -> RowState | None:
    return request.query.choice("state", RowState) if request.query.text("state") else None


def _cells(row: BatchRow, batch: Batch) -> list[str]:
    """Cells in the order of the file's columns.

    The reference is kept, so that a row uploaded twice is paid once.
    """
    amount = Money(batch.currency, row.amount_minor).amount
    return [
        row.amount_text if row.state is RowState.FAULTY else f"{amount:f}",
        *(row.bank_code, row.account_number, row.name, row.ref_trx, row.description),
    ]


def _file(name: str, lines: list[list[str]]) -> Answer:
    buffer = io.StringIO()
    csv.writer(buffer).writerows(lines)
    # Spreadsheet programs need the byte order mark to detect UTF-8.
    return Response(
        buffer.getvalue().encode("utf-8-sig"),
        media_type=exports.CSV_TYPE,
        headers={"Content-Disposition": f'attachment; filename="{name}"', **NO_STORE},
    )
