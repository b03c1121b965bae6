"""A filtered view as a file, row by row: the whole of it is never held in memory."""

import csv
import io
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar, cast

import msgspec
from litestar.response import Stream

from manilla.kit import deadline
from manilla.web.lists import FORMAT
from manilla.web.visit import Visit

Row = TypeVar("Row")
Cell = str | int | Decimal | datetime | None

CSV_TYPE = "text/csv"  # the charset is added to it
XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
CHUNK_BYTES = 64 * 1024
IN_MEMORY_BYTES = 1024 * 1024
XLSX_ROWS_MAX = 1_048_575

# A spreadsheet takes a text that begins like this for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


class Column(msgspec.Struct, Generic[Row], frozen=True):
    title: str
    value: Callable[[Row], Cell]


class File(Stream):
    """What is sent as it is made."""

    name: str
    file_format: str

    async def begin(self) -> None:
        """Makes its first bytes: a list that is refused is so before anything was sent."""
        content = cast(AsyncIterator[bytes], self.iterator)
        self.iterator = _rejoined(await anext(content, b""), content)


def is_wanted(visit: Visit) -> bool:
    return visit.query.text(FORMAT) in ("csv", "xlsx")


def send(
    visit: Visit, name: str, columns: Sequence[Column[Row]], pages: AsyncIterable[Sequence[Row]]
) -> File:
    """Page by page: no connection is held while the reader is slow."""
    kind = visit.query.text(FORMAT)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    paced = _paced(pages)
    content = as_csv(columns, paced) if kind == "csv" else as_xlsx(columns, paced)
    file = File(
        content,
        media_type=CSV_TYPE if kind == "csv" else XLSX_TYPE,
        headers={
            "Content-Disposition": f'attachment; filename="{name}-{stamp}.{kind}"',
            "Cache-Control": "no-store",
        },
    )
    file.name, file.file_format = name, kind
    return file


async def _paced(pages: AsyncIterable[Sequence[Row]]) -> AsyncIterator[Sequence[Row]]:
    """Each page of a long file has as long as a whole page on the screen."""
    async for rows in pages:
        yield rows
        deadline.renew()


async def _rejoined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk


async def as_csv(
    columns: Sequence[Column[Row]], pages: AsyncIterable[Sequence[Row]]
) -> AsyncIterator[bytes]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([column.title for column in columns])
    async for rows in pages:
        writer.writerows([plain(column.value(row)) for column in columns] for row in rows)
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


async def as_xlsx(
    columns: Sequence[Column[Row]], pages: AsyncIterable[Sequence[Row]]
) -> AsyncIterator[bytes]:
    """Its rows go to a file as they come; what is sent is read from there."""
    import xlsxwriter  # with the first such file

    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as file:
        # Closed whatever happens: where a reader goes before the end, no file of ours stays behind.
        with xlsxwriter.Workbook(
            file, {"constant_memory": True, "strings_to_formulas": False}
        ) as book:
            sheet = book.add_worksheet()
            bold = book.add_format({"bold": True})
            for place, column in enumerate(columns):
                sheet.write_string(0, place, column.title, bold)
            formats = _MoneyFormats(book)
            number = 0
            async for rows in pages:
                for row in rows[: XLSX_ROWS_MAX - number]:
                    number += 1
                    for place, column in enumerate(columns):
                        _write(sheet, number, place, column.value(row), formats)
        file.seek(0)
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


class _MoneyFormats:
    """Number formats that show all decimals of an amount: 22.50 and not 22.5."""

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


def _write(sheet: Any, row: int, place: int, cell: Cell, formats: _MoneyFormats) -> None:
    # A spreadsheet's numbers have 15 digits: longer ones stay exact as text.
    if isinstance(cell, Decimal | int) and len(str(cell)) <= 15:
        sheet.write_number(row, place, float(cell), formats.of(cell))
    elif cell is not None:
        sheet.write_string(row, place, _text(cell))


def plain(cell: Cell) -> str:
    text = _text(cell)
    is_text = isinstance(cell, str)
    return f"'{text}" if is_text and text.startswith(_FORMULA_STARTS) else text


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return cell.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return f"{cell:f}" if isinstance(cell, Decimal) else str(cell)
