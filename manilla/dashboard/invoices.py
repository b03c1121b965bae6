"""Invoice pages: the list of fee invoices, one invoice with its files, and the billing details."""

from manilla.invoices import issuing, store
from manilla.invoices.invoice import Invoice, InvoiceNotFound, Party
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.scope import Tenant
from manilla.web.columns import invoices as columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

PAGE = "/invoices"
LIST = RecordList("invoices", "invoice", columns.COLUMNS, store.page, store.totals)


async def show_all(request: PageRequest) -> PageResponse:
    currencies = request.services.methods.currencies
    own = Tenant(request.merchant_id, Environment.PRODUCTION)
    wanted, filters = columns.read_filter(request, currencies)
    return await LIST.show(
        *(request, "invoices.html", columns.OWN_EXPORT, [own], wanted, filters),
        recipient=await store.recipient(request.db, request.merchant_id),
        is_issued=bool(request.services.platform.now.invoices_since),
    )


async def show(request: PageRequest) -> PageResponse:
    return request.page("invoice.html", invoice=await _invoice(request))


async def send_pdf(request: PageRequest) -> PageResponse:
    return await columns.send_pdf(await _invoice(request))


async def send_xml(request: PageRequest) -> PageResponse:
    return columns.send_xml(await _invoice(request))


async def set_recipient(request: PageRequest) -> PageResponse:
    """Changes to whom the next invoices are addressed."""
    names = ("name", "address", "tax_id")
    try:
        party = Party(*(request.form.required(name) for name in names))
        await issuing.set_recipient(request.db, request.merchant_id, party)
    except Refusal as refusal:
        return request.redirect_with_errors(PAGE, refusal, keep=names)
    return request.redirect(PAGE, done="Billing details saved. They apply to the next invoice.")


async def _invoice(request: PageRequest) -> Invoice:
    try:
        return await store.find(request.db, request.parameter("invoice"), request.merchant_id)
    except InvoiceNotFound:
        raise PageNotFound from None
