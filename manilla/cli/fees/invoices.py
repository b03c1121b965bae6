"""`manilla invoice`: issues, shows and cancels the fee invoices to merchants."""

from pathlib import Path
from typing import Annotated, Any

import typer

from manilla.cli.instance import Tools, command
from manilla.cli.options import LIST_MAX, OfMerchant
from manilla.cli.output import as_row, as_rows
from manilla.invoices import fees, files, issuing, store, ubl
from manilla.invoices.invoice import Invoice, InvoiceLine, read_month
from manilla.invoices.store import InvoiceFilter
from manilla.kit.fields import Fields
from manilla.kit.listing import first, in_pages
from manilla.ledger.scope import Everyone
from manilla.platform import settings

app = typer.Typer(no_args_is_help=True)

COLUMNS = store.FIELDS.select(
    "number type merchant_id month currency fee tax total corrects reason customer customer_tax_id"
    " authority_reference issued_by issued_at"
)
ROW = store.FIELDS.select("number type merchant_id month currency total issued_at")
LINES = Fields(InvoiceLine).select("title account kind count")

Number = Annotated[str, typer.Argument(metavar="NUMBER", help="The invoice's number.")]
Month = Annotated[str, typer.Argument(metavar="MONTH", help="A month that has ended: 2026-12.")]


@command(app)
async def issue(tools: Tools, month: Month, merchant: OfMerchant = None) -> None:
    """Issue the invoices of a month that merchants do not have yet."""
    wanted, current = read_month(month), await settings.load(tools.db)
    await fees.check_ended(tools.db, wanted)
    found = await fees.of_month(tools.db, wanted, merchant)
    issued = [await issuing.issue(tools.db, current, wanted, each) for each in found]
    _print(tools, [invoice for invoice in issued if invoice], "No invoice was missing.")


@command(app, "list")
async def list_invoices(
    tools: Tools,
    month: Annotated[str | None, typer.Option("--month", metavar="MONTH")] = None,
    merchant: OfMerchant = None,
) -> None:
    """List invoices and credit notes, newest first."""
    wanted = InvoiceFilter(month=month)
    pages = in_pages(store.page, tools.db, Everyone(merchant), wanted)
    _print(tools, [*await first(pages, LIST_MAX)], "There are no invoices.")


@command(app)
async def show(
    tools: Tools,
    number: Number,
    folder: Annotated[
        Path | None, typer.Option("--save-to", help="Also write its PDF and XML files here.")
    ] = None,
) -> None:
    """Show an invoice with its lines."""
    found = await store.find(tools.db, number)
    if folder is not None:
        (folder / f"{number}.pdf").write_bytes(await files.write_pdf(found))
        (folder / f"{number}.xml").write_bytes(ubl.write(found))
    lines = [
        {**as_row(LINES, line), "amount": found.shown(line.minor).amount} for line in found.lines
    ]
    tools.print_record({**_described(found), "lines": lines}, lines="There are no lines.")


@command(app)
async def reference(
    tools: Tools,
    number: Number,
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="The authority's IRN.")],
    qr: Annotated[str, typer.Option("--qr", help="The content of its QR code.")] = "",
) -> None:
    """Record the reference that the tax authority's access point returned."""
    tools.print_fields(_described(await issuing.record_reference(tools.db, number, reference, qr)))


@command(app)
async def credit(
    tools: Tools,
    number: Number,
    reason: Annotated[str, typer.Option("--reason", help="The merchant sees it.")],
) -> None:
    """Cancel an invoice with a credit note, and issue the month's invoice again."""
    current = await settings.load(tools.db)
    _print(tools, await issuing.issue_again(tools.db, current, number, reason), "")


def _print(tools: Tools, found: list[Invoice], empty: str) -> None:
    tools.print_rows(as_rows(ROW, found), empty=empty)


def _described(invoice: Invoice) -> dict[str, Any]:
    return as_row(COLUMNS, invoice)
