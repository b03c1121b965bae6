"""The list of fee invoices, and the files of one, in the dashboard and the console."""

from collections.abc import Sequence

from markupsafe import Markup

from manilla.invoices import files, store, ubl
from manilla.invoices.invoice import Invoice
from manilla.invoices.store import InvoiceFilter
from manilla.kit.display import money
from manilla.web import record_list, table_cells
from manilla.web.exports import attachment
from manilla.web.page_request import PageRequest
from manilla.web.record_list import BY_AMOUNT, ListColumn, ListFilter, Place, time_column
from manilla.web.serving.response import PageResponse

EXPORTED = (
    "number type merchant_id month currency fee tax total corrects customer customer_tax_id"
    " authority_reference issued_at"
)
EXPORT = store.FIELDS.select(EXPORTED)
OWN_EXPORT = store.FIELDS.select(EXPORTED.replace("merchant_id ", ""))


def _number(request: PageRequest, row: Invoice) -> Markup:
    return table_cells.link(request, f"/invoices/{row.number}", row.number)


COLUMNS = (
    time_column("Issued", "issued_at"),
    ListColumn("number", "Number", _number, place=Place.NAME),
    ListColumn("type", "Type", lambda _, row: row.title, place=Place.STATUS),
    ListColumn("month", "Month", lambda _, row: f"{row.month:%b %Y}", place=Place.ASIDE),
    ListColumn(
        "reference",
        "Authority's reference",
        lambda _, row: table_cells.text(row.authority_reference),
        is_default=False,
    ),
    ListColumn(
        "total",
        "Total",
        lambda _, row: money(row.total),
        is_number=True,
        sorts=BY_AMOUNT,
        place=Place.AMOUNT,
    ),
)


def read_filter(
    request: PageRequest, currencies: Sequence[str]
) -> tuple[InvoiceFilter, list[ListFilter]]:
    wanted = record_list.read_amounts(request, InvoiceFilter, "currency", "month")
    filters = [
        ListFilter("month", "Month, such as 2026-12"),
        *record_list.currency_filter(currencies),
    ]
    return wanted, filters


async def send_pdf(invoice: Invoice) -> PageResponse:
    content = await files.write_pdf(invoice)
    return attachment(f"{invoice.number}.pdf", files.PDF, content)


def send_xml(invoice: Invoice) -> PageResponse:
    return attachment(f"{invoice.number}.xml", files.XML, ubl.write(invoice))
