"""Draws a day's reconciliation as an A4 PDF, for an accountant to sign."""

from collections.abc import Sequence
from datetime import datetime

from fpdf import FPDF

from manilla.kit.display import moment_text
from manilla.kit.pdf.tables import start, table, write
from manilla.proofs.anchors import Heads
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.reports import DayReport
from manilla.reconciliation.unmatched import LIST_MAX, Unmatched

WIDTHS = (30, 62, 32, 22, 22, 22)
TOTALS_WIDTHS = (58, 33, 33, 33, 33)
TOTALS_HEADINGS = ("Figure", "Our ledger", "Statement", "Provider's balance", "Difference")
NOTHING = "-"
HEADINGS = ("Booked", "Transaction or line", "Finding", "Ledger", "Statement", "Difference")


def draw(
    report: DayReport, rows: Sequence[Unmatched], title: str, heads: Heads, now: datetime
) -> bytes:
    day = report.day
    pdf = start(f"Reconciliation {day.provider} {day.day}")
    write(pdf, f"Reconciliation: {title}, {day.day}", 14, "B")
    write(pdf, f"Statement imported {_time(day.imported_at)}. Printed {_time(now)}.", 8)
    pdf.ln(3)
    _totals(pdf, day)
    pdf.ln(4)
    _unmatched(pdf, rows)
    pdf.ln(4)
    _sign_off(pdf, report)
    pdf.ln(4)
    write(pdf, f"Head of the ledger's hash chain: {heads.chain_head}", 7)
    write(pdf, f"Head of the audit log: {heads.audit_head}", 7)
    return bytes(pdf.output())


def _totals(pdf: FPDF, day: ReconciledDay) -> None:
    table(pdf, TOTALS_WIDTHS, TOTALS_HEADINGS, _total_rows(day), first_right=1)
    pdf.ln(2)
    write(pdf, f"The provider's balance: {_source(day)}.", 9)
    if day.provider_balance is not None:
        write(pdf, "Transfers in transit can explain a difference between the balances.", 9)
    write(pdf, f"Movements in the statement: {', '.join(day.kinds)}.", 9)
    write(pdf, f"Result: {day.result}.", 9, "B")


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
    write(pdf, "Unmatched", 11, "B")
    if not rows:
        write(pdf, "All statement lines and ledger movements match.", 9.5)
        return
    table(pdf, WIDTHS, HEADINGS, [_cells(each) for each in rows], first_right=3)
    if len(rows) >= LIST_MAX:
        write(pdf, f"Only {LIST_MAX} rows are listed. The CSV file has the same limit.", 8)


def _cells(row: Unmatched) -> list[str]:
    amounts = (row.ledger, row.statement, row.difference)
    return [
        _time(row.booked_at),
        f"{row.reference} {row.description[:60]}".strip(),
        row.finding,
        *(_shown(amount) for amount in amounts),
    ]


def _sign_off(pdf: FPDF, report: DayReport) -> None:
    if pdf.get_y() > pdf.h - 60:
        pdf.add_page()
    write(pdf, "Sign-off", 11, "B")
    signed = report.signed
    if signed is None:
        write(pdf, "Not signed in Manilla.", 9.5)
        _signature(pdf)
        return
    write(pdf, f"Signed by {signed.signed_by} on {_time(signed.signed_at)}.", 9.5)
    if signed.note:
        write(pdf, f"Note: {signed.note}", 9.5)
    if report.changes:
        write(pdf, "Changed after sign-off:", 9.5, "B")
        rows = [[each.label, _shown(each.signed), _shown(each.current)] for each in report.changes]
        table(pdf, (70, 60, 60), ("Figure", "As signed", "Now"), rows, first_right=1)


def _signature(pdf: FPDF) -> None:
    pdf.ln(14)
    write(pdf, "Checked by: ______________________________    Date: ________________", 9.5)
    pdf.ln(8)
    write(pdf, "Signature: _______________________________", 9.5)


def _shown(figure: object) -> str:
    return NOTHING if figure is None else str(figure)


def _time(moment: datetime) -> str:
    return f"{moment_text(moment)} (Lagos)"
