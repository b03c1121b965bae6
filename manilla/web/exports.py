"""Exports a filtered list as a file. The file is streamed, to limit the memory it needs."""

import io
import tempfile
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

from manilla.kit import deadline
from manilla.kit.fields import Columns, as_csv, cell_of, text_of
from manilla.web.page_request import NO_STORE, PageRequest
from manilla.web.serving.response import PageResponse, StreamedResponse

Row = TypeVar("Row")

FORMAT = "format"  # the query parameter for the file format, csv or xlsx
CSV_TYPE = "text/csv"  # the response adds the charset to this type
XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
CHUNK_BYTES = 64 * 1024
IN_MEMORY_BYTES = 1024 * 1024
XLSX_ROWS_MAX = 1_048_575
COLUMN_WIDTH = 22


class ExportFile(StreamedResponse):
    """A file that is streamed while it is generated."""

    name: str
    file_format: str


def is_wanted(request: PageRequest) -> bool:
    """Returns whether the request is an export. A file cannot say how old its data are."""
    is_export = request.query.text(FORMAT) in ("csv", "xlsx")
    request.needs_current_data |= is_export
    return is_export


def send(
    request: PageRequest,
    name: str,
    columns: Columns[Row],
    pages: AsyncIterable[Sequence[Row]],
) -> ExportFile:
    """Streams the rows in pages, so that a slow client does not hold a database connection."""
    kind = request.query.text(FORMAT)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    paced = _paced(pages)
    content = as_csv(columns, paced) if kind == "csv" else as_xlsx(columns, paced)
    file = ExportFile(
        content,
        media_type=CSV_TYPE if kind == "csv" else XLSX_TYPE,
        headers={
            "Content-Disposition": f'attachment; filename="{name}-{stamp}.{kind}"',
            "Cache-Control": "no-store",
        },
    )
    file.name, file.file_format = name, kind
    return file


def attachment(name: str, media_type: str, content: bytes) -> PageResponse:
    """Returns a file that browsers download and do not display. `name` must be safe in a header."""
    return PageResponse(
        content,
        media_type=media_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            **NO_STORE,
        },
    )


async def _paced(pages: AsyncIterable[Sequence[Row]]) -> AsyncIterator[Sequence[Row]]:
    """Yields the pages of rows, and restarts the request's time limit after each page."""
    async for rows in pages:
        yield rows
        deadline.renew()


async def as_xlsx(
    columns: Columns[Row], pages: AsyncIterable[Sequence[Row]]
) -> AsyncGenerator[bytes, None]:
    """Writes all rows to a temporary file, then streams that file."""
    import xlsxwriter  # imported here because xlsxwriter loads slowly

    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
        # The `with` statements delete the temporary file even if the client disconnects early.
        with xlsxwriter.Workbook(
            file, {"constant_memory": True, "strings_to_formulas": False}
        ) as book:
            sheet = book.add_worksheet()
            bold = book.add_format({"bold": True})
            for place, title in enumerate(columns):
                sheet.write_string(0, place, title, bold)
            formats = _MoneyFormats(book)
            number = 0
            async for rows in pages:
                for row in rows[: XLSX_ROWS_MAX - number]:
                    number += 1
                    for place, value in enumerate(columns.values()):
                        _write(sheet, number, place, value(row), formats)
        file.seek(0)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def text_workbook(sheets: Mapping[str, Sequence[Sequence[str]]]) -> bytes:
    """Returns an .xlsx file with text cells, so that account numbers keep leading zeros."""
    import xlsxwriter

    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"in_memory": True, "constant_memory": False}) as book:
        text, bold = book.add_format({"num_format": "@"}), book.add_format({"bold": True})
        for name, lines in sheets.items():
            sheet = book.add_worksheet(name)
            sheet.set_column(0, max(map(len, lines)) - 1, COLUMN_WIDTH, text)
            for number, line in enumerate(lines):
                for place, cell in enumerate(line):
                    sheet.write_string(number, place, cell, bold if number == 0 else text)
    return content.getvalue()


class _MoneyFormats:
    """Spreadsheet number formats that show an amount with all decimals: 22.50, not 22.5."""

    def __init__(self, book: Any) -> None:
        self._book = book
        self._by_decimals: dict[int, Any] = {}

    def of(self, cell: Decimal | int) -> Any:
        exponent = cell.as_tuple().exponent if isinstance(cell, Decimal) else 0
        if not isinstance(exponent, int) or exponent >= 0:
            return None
        if exponent not in self._by_decimals:
            pattern = f"0.{'0' * -exponent}"
            self._by_decimals[exponent] = self._book.add_format({"num_format": pattern})
        return self._by_decimals[exponent]


def _write(sheet: Any, row: int, place: int, value: object, formats: _MoneyFormats) -> None:
    cell = cell_of(value)
    # Spreadsheet numbers have 15 digits, so longer numbers are written as text.
    if isinstance(cell, Decimal | int) and len(str(cell)) <= 15:
        sheet.write_number(row, place, float(cell), formats.of(cell))
    elif cell is not None:
        sheet.write_string(row, place, text_of(cell))
