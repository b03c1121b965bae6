"""Parses payout files: CSV or XLSX with one payout per line."""

import csv
import io
import re
from itertools import chain, repeat

import msgspec

from manilla.bulk import sheet
from manilla.bulk.sheet import Cell, UnreadableSheet
from manilla.kit.errors import Refusal

MEBIBYTE = 1024 * 1024
BYTES_MAX = 10 * MEBIBYTE
ROWS_MAX = 10_000
LINES_MAX = 3 * ROWS_MAX  # includes empty lines
LINE_ENDS_MAX = 2 * LINES_MAX  # maximum number of CR and LF characters, including quoted ones
COLUMNS = ("amount", "bank_code", "account_number", "name", "reference", "description")
NEEDED = COLUMNS[:3]
# Alternative column titles. A file can contain both a bank's code and its name.
OTHER_TITLES = {
    "bank": "bank_code",
    "account": "account_number",
    "account_name": "name",
    "beneficiary_name": "name",
    "ref_trx": "reference",
}
BANK_NAME, PURPOSE = "bank_name", "purpose"  # further columns that a file can have
WHOLE_ROW = "row"  # key for errors that concern the whole row
CELL_LENGTH_MAX = 300
# Spreadsheet programs write semicolons in locales with a decimal comma. They can also write tabs.
DELIMITERS = ",;\t"
_ROUNDED = re.compile(r"[0-9](\.[0-9]+)?[eE]\+?[0-9]+")


class BadFile(Refusal):
    status, code = 400, "BAD_FILE"
    message = "This file cannot be read."


class FileRow(msgspec.Struct, frozen=True):
    number: int  # 1-based number of the payout in the file
    amount: str
    bank_code: str
    account_number: str
    name: str
    reference: str
    description: str
    purpose: str = ""
    bank_name: str = ""
    faults: dict[str, str] = {}  # parsing errors by column


def read(raw: bytes) -> list[FileRow]:
    if len(raw) > BYTES_MAX:
        raise BadFile(f"The file is larger than {BYTES_MAX // MEBIBYTE} MiB.")
    if not sheet.is_zip(raw):
        lines = _csv_lines(raw)
    else:
        try:
            lines = sheet.read(raw, lines_max=LINES_MAX)
        except UnreadableSheet as error:
            raise BadFile(str(error)) from None
    return _rows([line for line in lines if any(cell.text or cell.fault for cell in line)])


def _csv_lines(raw: bytes) -> list[list[Cell]]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile(
            "The file is neither an .xlsx file nor CSV in UTF-8. "
            "In Excel choose “Save As” and the type “Excel Workbook” or “CSV UTF-8”."
        ) from None
    if "\0" in text:
        raise BadFile("The file is not a CSV file.")
    # Reject very large files before parsing: millions of empty lines or values need much memory.
    if text.count("\n") + text.count("\r") > LINE_ENDS_MAX:
        raise BadFile(f"The file has too many lines. It can have at most {ROWS_MAX:,} payouts.")
    delimiter = _delimiter(text)
    if text.count(delimiter) > sheet.CELLS_MAX:
        raise BadFile("The file has too many values.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        return [[Cell(_value(cell)) for cell in line] for line in reader]
    except csv.Error:
        raise BadFile("The file is not a CSV file: a quotation mark is not closed.") from None


def _delimiter(text: str) -> str:
    """Returns the delimiter that yields the required columns in the header line.

    The other lines are ignored, because their amounts may contain commas.
    """
    first = next((line for line in io.StringIO(text, newline="") if line.strip()), "")
    for delimiter in DELIMITERS:
        if not _missing([_title(cell) for cell in first.split(delimiter, sheet.CELLS_MAX)]):
            return delimiter
    return ","


def _title(cell: str) -> str:
    name = cell.strip().strip('"').strip().lower().replace(" ", "_")
    return OTHER_TITLES.get(name, name)


def _missing(titles: list[str]) -> list[str]:
    known = {*titles, "bank_code"} if BANK_NAME in titles else titles
    return [name for name in NEEDED if name not in known]


def _rows(lines: list[list[Cell]]) -> list[FileRow]:
    if not lines:
        raise BadFile("The file is empty.")
    titles = [_title(cell.text) for cell in lines[0]]
    if missing := _missing(titles):
        raise BadFile(f"The first line must name the columns. Missing: {', '.join(missing)}.")
    named = [title for title in titles if title]
    if len(set(named)) != len(named):
        raise BadFile("A column is named twice.")
    if len(lines) == 1:
        raise BadFile("The file has no payouts below its first line.")
    if len(lines) - 1 > ROWS_MAX:
        raise BadFile(f"The file has {len(lines) - 1:,} payouts. It can have at most {ROWS_MAX:,}.")
    return [_row(number, titles, line) for number, line in enumerate(lines[1:], start=1)]


def _row(number: int, titles: list[str], line: list[Cell]) -> FileRow:
    cells = {title: cell for title, cell in zip(titles, line, strict=False) if title}
    known = {name: cells.get(name, Cell()) for name in (*COLUMNS, BANK_NAME, PURPOSE)}
    faults = {name: cell.fault for name, cell in known.items() if cell.fault}
    if BANK_NAME in faults:
        faults["bank_code"] = faults.pop(BANK_NAME)
    values = {name: cell.text for name, cell in known.items()}
    if _ROUNDED.fullmatch(values["account_number"]):
        faults["account_number"] = (
            "The spreadsheet has rounded the account number. Enter all its digits."
        )
    if is_shifted(titles, line):
        faults[WHOLE_ROW] = (
            "The row has more values than the first line has column names. "
            "Put quotation marks around a value that contains the separator."
        )
    return FileRow(number, **values, faults=faults)


def _value(cell: str) -> str:
    """Removes the apostrophe that our exports put before a value that looks like a formula."""
    text = cell.strip()[:CELL_LENGTH_MAX]
    return text[1:] if text[:1] == "'" and text[1:2] in tuple("=+-@") else text


def is_shifted(titles: list[str], line: list[Cell]) -> bool:
    """Whether the row has a value in a column without a title.

    For example, an unquoted decimal comma shifts later values by one column. Only the titles of
    the row's own values are read, because the first line can be very long.
    """
    pairs = zip(line, chain(titles, repeat("")), strict=False)
    return any(cell.text and not title for cell, title in pairs)
