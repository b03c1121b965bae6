"""Draws a day's reconciliation as an A4 PDF, for an accountant to sign."""

from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import FontFace, TTFFont

from manilla.kit.clock import LAGOS
from manilla.kit.money import Money
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.unmatched import LIST_MAX, Unmatched

FONTS = Path(str(resources.files("manilla.web"))) / "fonts"
FAMILY = "dejavu"
MISSING = "\N{REPLACEMENT CHARACTER}"
WIDTHS = (30, 62, 32, 22, 22, 22)
HEADINGS = ("Booked", "Transaction or line", "Finding", "Ledger", "Statement", "Difference")


def draw(day: ReconciledDay, rows: Sequence[Unmatched], title: str, now: datetime) -> bytes:
    pdf = FPDF(format="A4")
    pdf.add_font(FAMILY, "", FONTS / "DejaVuSans.ttf")
    pdf.add_font(FAMILY, "B", FONTS / "DejaVuSans-Bold.ttf")
    pdf.set_title(f"Reconciliation {day.provider} {day.day}")
    pdf.set_creator("Manilla")
    pdf.set_lang("en")
    pdf.add_page()
    _write(pdf, f"Reconciliation: {title}, {day.day}", 14, "B")
    _write(pdf, f"Statement imported {_time(day.imported_at)}. Printed {_time(now)}.", 8)
    pdf.ln(3)
    _totals(pdf, day)
    pdf.ln(4)
    _unmatched(pdf, rows)
    _signature(pdf)
    return bytes(pdf.output())


def _totals(pdf: FPDF, day: ReconciledDay) -> None:
    lines = {
        "Our ledger": f"{day.ledger} in {day.movements} movements",
        "The provider's statement": f"{day.statement} in {day.lines} lines",
        "Difference": str(day.difference),
        "Our ledger's balance at the end of the day": _shown(day.ledger_balance),
        "The balance on the statement": _shown(day.provider_balance),
        "Kinds of movements that the statement lists": ", ".join(day.kinds),
        "Result": day.result,
    }
    for label, value in lines.items():
        _write(pdf, f"{label}: {value}", 9.5)


def _unmatched(pdf: FPDF, rows: Sequence[Unmatched]) -> None:
    _write(pdf, "Unmatched", 11, "B")
    if not rows:
        _write(pdf, "Every line and every movement matches.", 9.5)
        return
    pdf.set_font(FAMILY, "", 7)
    style = FontFace(emphasis="BOLD")
    with pdf.table(col_widths=WIDTHS, headings_style=style, line_height=4) as table:
        table.row(HEADINGS)
        for each in rows:
            table.row([_supported(pdf, cell) for cell in _cells(each)])
    if len(rows) >= LIST_MAX:
        _write(pdf, f"Only the first {LIST_MAX} are listed. The CSV file has the same limit.", 8)


def _cells(row: Unmatched) -> list[str]:
    amounts = (row.ledger, row.statement, row.difference)
    return [
        _time(row.booked_at),
        f"{row.reference} {row.description[:60]}".strip(),
        row.finding,
        *(_shown(amount) for amount in amounts),
    ]


def _signature(pdf: FPDF) -> None:
    if pdf.get_y() > pdf.h - 50:
        pdf.add_page()
    pdf.ln(18)
    _write(pdf, "Checked by: ______________________________    Date: ________________", 9.5)
    pdf.ln(8)
    _write(pdf, "Signature: _______________________________", 9.5)


def _shown(amount: Money | None) -> str:
    return "-" if amount is None else str(amount)


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(LAGOS):%Y-%m-%d %H:%M} (Lagos)"


def _write(pdf: FPDF, text: str, size: float, style: str = "") -> None:
    pdf.set_font(FAMILY, style, size)
    pdf.multi_cell(0, size * 0.55, _supported(pdf, text), new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def _supported(pdf: FPDF, text: str) -> str:
    """Replaces characters that the font lacks, so that texts in other scripts are not blank."""
    font = pdf.current_font
    assert isinstance(font, TTFFont)
    return "".join(each if ord(each) in font.cmap else MISSING for each in text)
