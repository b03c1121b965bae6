"""Invoice pages: the list, one invoice with the authority's reference, and new invoices."""

from datetime import date
from typing import Any

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.console import list_pages
from manilla.invoices import fees, issuing, store
from manilla.invoices.invoice import Invoice, InvoiceNotFound, read_month
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.web.columns import invoices as columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE = "/invoices"
LIST = RecordList(
    "all_invoices",
    "invoice",
    list_pages.with_merchant(columns.COLUMNS),
    store.page,
    store.totals,
)


async def show_all(request: PageRequest) -> PageResponse:
    currencies = request.services.methods.currencies
    wanted, filters = columns.read_filter(request, currencies)
    return await list_pages.show(
        *(request, LIST, "invoices.html", columns.EXPORT),
        *([list_pages.scope(request)], wanted, filters),
        settings=request.services.platform.now,
    )


async def issue(request: PageRequest) -> PageResponse:
    """Queues the invoices of a month that ended, which a worker issues."""
    try:
        month = read_month(request.form.required("month"))
        issuing.supplier(request.services.platform.now)
        await fees.check_ended(request.db, month)
        await _queue(request, month)
    except Refusal as refusal:
        return request.redirect(PAGE, failed=refusal.text)
    return request.redirect(PAGE, done=f"The invoices for {month:%B %Y} are being issued.")


async def _queue(request: PageRequest, month: date) -> None:
    subject = f"{month:%Y-%m}"
    async with request.db.transaction() as connection:
        await jobs.put(connection, 0, JobKind.INVOICES, subject)
        await audit.record(connection, "invoice.month", f"month:{subject}")


async def show(request: PageRequest) -> PageResponse:
    return await _page(request, await _invoice(request))


async def send_pdf(request: PageRequest) -> PageResponse:
    return await columns.send_pdf(await _invoice(request))


async def send_xml(request: PageRequest) -> PageResponse:
    return columns.send_xml(await _invoice(request))


async def set_reference(request: PageRequest) -> PageResponse:
    invoice, form = await _invoice(request), request.form
    try:
        await issuing.record_reference(
            request.db, invoice.number, form.text("reference"), form.text("qr", at_most=2_000)
        )
    except Refusal as refusal:
        return await _page(request, invoice, refusal)
    done = "The tax authority's reference was recorded."
    return request.redirect(f"{PAGE}/{invoice.number}", done=done)


async def cancel(request: PageRequest) -> PageResponse:
    """Cancels the invoice with a credit note, and issues the month's invoice again."""
    invoice = await _invoice(request)
    try:
        await request.confirm_identity()
        issued = await issuing.issue_again(
            request.db,
            request.services.platform.now,
            invoice.number,
            request.form.text("reason"),
        )
    except Refusal as refusal:
        return await _page(request, invoice, refusal)
    numbers = " and ".join(each.number for each in issued)
    return request.redirect(f"{PAGE}/{issued[-1].number}", done=f"Issued {numbers}.")


async def _page(
    request: PageRequest, invoice: Invoice, refusal: Refusal | None = None
) -> PageResponse:
    key = invoice.merchant_id, invoice.month, invoice.currency
    about = AuditFilter(merchant_id=invoice.merchant_id, subject=f"invoice:{invoice.number}")
    values: dict[str, Any] = {
        "invoice": invoice,
        "is_newest": await store.newest_of(request.db, *key) == invoice and not invoice.corrects,
        "merchant": await merchants.get(request.db, invoice.merchant_id),
        "lines": await audit.list_entries(request.db, about),
    }
    if refusal is None:
        return request.page("invoice.html", **values)
    return request.form_with_errors("invoice.html", refusal, **values)


async def _invoice(request: PageRequest) -> Invoice:
    try:
        return await store.find(request.db, request.parameter("invoice"))
    except InvoiceNotFound:
        raise PageNotFound from None
