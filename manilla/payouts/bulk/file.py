"""Reads payout files: CSV with one payout per line."""

import csv
import io
from itertools import zip_longest

import msgspec

from manilla.kit.errors import Refusal

BYTES_MAX = 1024 * 1024
ROWS_MAX = 1_000
LINE_ENDS_MAX = 20_000  # counts CR and LF separately; a quoted value may have line breaks
COLUMNS = ("amount", "bank_code", "account_number", "name", "reference", "description")
NEEDED = COLUMNS[:3]
CELL_LENGTH_MAX = 300
# Delimiters: spreadsheets use semicolons in locales with a decimal comma, and tabs on request.
DELIMITERS = ",;\t"


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
    shape_error: str | None = None  # error if the values cannot be assigned to columns


def read(raw: bytes) -> list[FileRow]:
    if len(raw) > BYTES_MAX:
        raise BadFile("The file is larger than 1 MiB.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile(
            "The file is not UTF-8. In Excel choose “Save As” and the type “CSV UTF-8”."
        ) from None
    if "\0" in text:
        raise BadFile("The file is not a CSV file.")
    # Reject such files before parsing: a million empty lines would block all other requests.
    if text.count("\n") + text.count("\r") > LINE_ENDS_MAX:
        raise BadFile(f"The file has too many lines. It can have at most {ROWS_MAX:,} payouts.")
    try:
        lines = list(
            csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
        )
    except csv.Error:
        raise BadFile("The file is not a CSV file: a quotation mark is not closed.") from None
    return _rows([line for line in lines if any(cell.strip() for cell in line)])


def _delimiter(text: str) -> str:
    """Returns the delimiter that yields the required columns in the header line.

    The other lines are ignored, because their amounts may contain commas.
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    for delimiter in DELIMITERS:
        if set(NEEDED) <= {_title(cell) for cell in first.split(delimiter)}:
            return delimiter
    return ","


def _title(cell: str) -> str:
    return cell.strip().strip('"').strip().lower().replace(" ", "_")


def _rows(lines: list[list[str]]) -> list[FileRow]:
    if not lines:
        raise BadFile("The file is empty.")
    titles = [_title(cell) for cell in lines[0]]
    missing = [name for name in NEEDED if name not in titles]
    if missing:
        raise BadFile(f"The first line must name the columns. Missing: {', '.join(missing)}.")
    named = [title for title in titles if title]
    if len(set(named)) != len(named):
        raise BadFile("A column is named twice.")
    if len(lines) == 1:
        raise BadFile("The file has no payouts below its first line.")
    if len(lines) - 1 > ROWS_MAX:
        raise BadFile(f"The file has {len(lines) - 1:,} payouts. It can have at most {ROWS_MAX:,}.")
    return [_row(number, titles, line) for number, line in enumerate(lines[1:], start=1)]


def _row(number: int, titles: list[str], line: list[str]) -> FileRow:
    cells = dict(zip(titles, line, strict=False))
    values = {name: _value(cells.get(name, "")) for name in COLUMNS}
    return FileRow(number, **values, shape_error=_shape_error(titles, line))


def _value(cell: str) -> str:
    """Removes the apostrophe that our exports put before a value that looks like a formula."""
    text = cell.strip()[:CELL_LENGTH_MAX]
    return text[1:] if text[:1] == "'" and text[1:2] in tuple("=+-@") else text


def _shape_error(titles: list[str], line: list[str]) -> str | None:
    """Returns an error if the row has the wrong number of values.

    For example, an unquoted decimal comma shifts later values by one column.
    """
    unnamed = [cell for cell, title in zip_longest(line, titles) if cell and not title]
    if not any(cell.strip() for cell in unnamed):
        return None
    return (
        "The row has more values than the first line has column names. "
        "Put quotation marks around a value that contains the separator."
    )
