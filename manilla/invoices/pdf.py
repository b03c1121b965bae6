"""Draws invoices and tax returns as A4 PDFs. Runs in an isolated process."""

from datetime import date
from io import BytesIO

import segno
from fpdf import FPDF

from manilla.invoices.invoice import Invoice, Party
from manilla.invoices.returns import NOT_FINAL, TaxReturn
from manilla.kit.display import moment_text
from manilla.kit.pdf.tables import start, table, write

LINE_WIDTHS, HEADINGS = (112, 28, 50), ("Fee", "Number", "Amount")
QR_MILLIMETERS = 32
WALLET = "The amount was deducted from the wallet in the course of the month. Nothing is due."


def draw_invoice(invoice: Invoice) -> bytes:
    pdf = start(f"{invoice.title} {invoice.number}")
    write(pdf, f"{invoice.title} {invoice.number}", 16, "B")
    write(pdf, f"Issued {moment_text(invoice.issued_at)} (Lagos)", 9)
    write(pdf, f"For fees in {invoice.month:%B %Y}, Africa/Lagos", 9)
    if invoice.corrects:
        write(pdf, f"Cancels {invoice.corrects}: {invoice.reason}", 9, "B")
    _party(pdf, "From", invoice.supplier)
    _party(pdf, "To", invoice.customer)
    pdf.ln(5)
    table(pdf, LINE_WIDTHS, HEADINGS, _rows(invoice), first_right=1, size=8.5)
    pdf.ln(3)
    write(pdf, f"Total: {invoice.total}", 12, "B")
    write(pdf, WALLET, 9)
    if invoice.authority_reference:
        _authority(pdf, invoice.authority_reference, invoice.authority_qr)
    return bytes(pdf.output())


def _party(pdf: FPDF, role: str, party: Party) -> None:
    pdf.ln(4)
    write(pdf, role, 8)
    write(pdf, party.name, 11, "B")
    for text in (party.address, party.tax_id and f"Tax id: {party.tax_id}", party.email):
        if text:
            write(pdf, text, 9)


def _rows(invoice: Invoice) -> list[list[str]]:
    rows = [
        [line.title, f"{line.count:,}", str(invoice.shown(line.minor))] for line in invoice.fees
    ]
    rows.append(["Fees", "", str(invoice.fee)])
    rows += [[name.replace("_", " ").upper(), "", str(tax)] for name, tax in invoice.taxes.items()]
    return rows


def _authority(pdf: FPDF, reference: str, qr: str | None) -> None:
    pdf.ln(4)
    write(pdf, f"Reference of the tax authority: {reference}", 9)
    if qr:
        picture = BytesIO()
        segno.make(qr, micro=False).save(picture, kind="png", scale=6)
        pdf.image(picture, w=QR_MILLIMETERS)


def draw_returns(month: date, found: list[TaxReturn], printed: str) -> bytes:
    """Draws the returns of a month, each on a page of its own after the first one."""
    pdf = start(f"Tax returns {month:%Y-%m}")
    write(pdf, f"Tax returns, {month:%B %Y}", 16, "B")
    write(pdf, f"Month of Africa/Lagos. Printed {printed} (Lagos).", 9)
    if not all(each.is_final for each in found):
        write(pdf, NOT_FINAL, 10, "B")
    if not found:
        write(pdf, "No tax was collected until the end of this month.", 9)
    for number, each in enumerate(found):
        if number:
            pdf.add_page()
        _return(pdf, each)
    return bytes(pdf.output())


def _return(pdf: FPDF, found: TaxReturn) -> None:
    pdf.ln(5)
    write(pdf, f"{found.title}, {found.currency}", 12, "B")
    pdf.ln(2)
    rows = [[label, str(amount)] for label, amount in found.figures]
    table(pdf, (120, 70), ("Figure", "Amount"), rows, first_right=1, size=9)
    pdf.ln(5)
    kinds = [
        [each.kind.replace("_", " "), f"{each.count:,}", str(found.money(each.minor))]
        for each in found.kinds
    ]
    table(pdf, LINE_WIDTHS, ("Postings", "Number", "Amount"), kinds, first_right=1, size=8.5)
