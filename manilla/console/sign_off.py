"""Draws a day's reconciliation as an A4 PDF, for an accountant to sign."""

from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from pathlib import Path

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from fpdf.fonts import FontFace, TTFFont

from manilla.kit.display import moment_text
from manilla.proofs.anchors import Heads
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.reports import DayReport
from manilla.reconciliation.unmatched import LIST_MAX, Unmatched

FONTS = Path(str(resources.files("manilla.web"))) / "fonts"
FAMILY = "dejavu"
MISSING = "\N{REPLACEMENT CHARACTER}"
WIDTHS = (30, 62, 32, 22, 22, 22)
TOTALS_WIDTHS = (58, 33, 33, 33, 33)
TOTALS_HEADINGS = ("Figure", "Our ledger", "Statement", "Provider's balance", "Difference")
NOTHING = "-"
HEADINGS = ("Booked", "Transaction or line", "Finding", "Ledger", "Statement", "Difference")


def draw(
    report: DayReport, rows: Sequence[Unmatched], title: str, heads: Heads, now: datetime
) -> bytes:
    day = report.day
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
    pdf.ln(4)
    _sign_off(pdf, report)
    pdf.ln(4)
    _write(pdf, f"Head of the ledger's hash chain: {heads.chain_head}", 7)
    _write(pdf, f"Head of the audit log: {heads.audit_head}", 7)
    return bytes(pdf.output())


def _totals(pdf: FPDF, day: ReconciledDay) -> None:
    _table(pdf, TOTALS_WIDTHS, TOTALS_HEADINGS, _total_rows(day), first_right=1)
    pdf.ln(2)
    _write(pdf, f"The provider's balance: {_source(day)}.", 9)
    if day.provider_balance is not None:
        _write(pdf, "Transfers in transit can explain a difference between the balances.", 9)
    _write(pdf, f"Movements in the statement: {', '.join(day.kinds)}.", 9)
    _write(pdf, f"Result: {day.result}.", 9, "B")


def _total_rows(day: ReconciledDay) -> list[list[str]]:
    moved = [str(day.ledger), str(day.statement), NOTHING, str(day.difference)]
    counts = [f"{day.movements} movements", f"{day.lines} lines", "", f"{day.unmatched} unmatched"]
    has_balance = day.balance_minor is not None
    ends = [day.ledger_balance, day.statement_balance, None]
    ends.append(day.balance_difference if has_balance else None)
    rows = [
        ["Moved on this day", *moved],
        ["", *counts],
        ["Balance at the end of the day", *map(_shown, ends)],
    ]
    if day.reported_at is not None:
        reported, ours = day.reported_balance, day.ledger_when_reported
        assert reported is not None
        assert ours is not None
        amounts = [ours, None, reported, reported - ours]
        rows.append([f"Balance on {_time(day.reported_at)}", *map(_shown, amounts)])
    return rows


def _source(day: ReconciledDay) -> str:
    at = day.provider_balance_at
    return day.provider_balance_from if at is None else f"reported by the provider on {_time(at)}"


def _unmatched(pdf: FPDF, rows: Sequence[Unmatched]) -> None:
    _write(pdf, "Unmatched", 11, "B")
    if not rows:
        _write(pdf, "All statement lines and ledger movements match.", 9.5)
        return
    _table(pdf, WIDTHS, HEADINGS, [_cells(each) for each in rows], first_right=3)
    if len(rows) >= LIST_MAX:
        _write(pdf, f"Only {LIST_MAX} rows are listed. The CSV file has the same limit.", 8)


def _cells(row: Unmatched) -> list[str]:
    amounts = (row.ledger, row.statement, row.difference)
    return [
        _time(row.booked_at),
        f"{row.reference} {row.description[:60]}".strip(),
        row.finding,
        *(_shown(amount) for amount in amounts),
    ]


def _table(
    pdf: FPDF,
    widths: Sequence[int],
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    first_right: int,
) -> None:
    """Draws a table. Columns from the index `first_right` on are right-aligned."""
    pdf.set_font(FAMILY, "", 7)
    aligned = ["LEFT"] * first_right + ["RIGHT"] * (len(widths) - first_right)
    style = FontFace(emphasis="BOLD")
    with pdf.table(
        col_widths=tuple(widths), headings_style=style, line_height=4, text_align=tuple(aligned)
    ) as table:
        for row in (headings, *rows):
            table.row([_supported(pdf, cell) for cell in row])


def _sign_off(pdf: FPDF, report: DayReport) -> None:
    if pdf.get_y() > pdf.h - 60:
        pdf.add_page()
    _write(pdf, "Sign-off", 11, "B")
    signed = report.signed
    if signed is None:
        _write(pdf, "Not signed in Manilla.", 9.5)
        _signature(pdf)
        return
    _write(pdf, f"Signed by {signed.signed_by} on {_time(signed.signed_at)}.", 9.5)
    if signed.note:
        _write(pdf, f"Note: {signed.note}", 9.5)
    if report.changes:
        _write(pdf, "Changed after sign-off:", 9.5, "B")
        rows = [[each.label, _shown(each.signed), _shown(each.current)] for each in report.changes]
        _table(pdf, (70, 60, 60), ("Figure", "As signed", "Now"), rows, first_right=1)


def _signature(pdf: FPDF) -> None:
    pdf.ln(14)
    _write(pdf, "Checked by: ______________________________    Date: ________________", 9.5)
    pdf.ln(8)
    _write(pdf, "Signature: _______________________________", 9.5)


def _shown(figure: object) -> str:
    return NOTHING if figure is None else str(figure)


def _time(moment: datetime) -> str:
    return f"{moment_text(moment)} (Lagos)"


def _write(pdf: FPDF, text: str, size: float, style: str = "") -> None:
    pdf.set_font(FAMILY, style, size)
    pdf.multi_cell(0, size * 0.55, _supported(pdf, text), new_x=XPos.LMARGIN, new_y=YPos.NEXT)


def _supported(pdf: FPDF, text: str) -> str:
    """Replaces characters that the font lacks with a visible placeholder."""
    font = pdf.current_font
    assert isinstance(font, TTFFont)
    return "".join(each if ord(each) in font.cmap else MISSING for each in text)
