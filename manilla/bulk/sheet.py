"""Parses the first visible sheet of an .xlsx file, which may be malicious.

Only the parts with cells are parsed, as a stream, with limits on their unpacked size and number of
cells. Entities are never expanded, formulas are never evaluated, and a number keeps the digits that
the spreadsheet shows.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import IO
from xml.parsers import expat

import msgspec

UNPACKED_BYTES_MAX = 32 * 1024 * 1024
CELLS_MAX = 300_000
# Maximum number of XML elements and attributes. The largest payout file has about ten per cell.
NODES_MAX = 1_500_000
DEPTH_MAX = 64  # maximum nesting of XML elements; a spreadsheet has about ten levels
# The parser buffers each tag until it is complete, so this limits the parser's memory.
TAG_BYTES_MAX = 256 * 1024
PARTS_MAX = 1_000
COLUMNS_MAX = 50
TEXT_LENGTH_MAX = 300
CHUNK_BYTES = 64 * 1024
DIGITS = 15  # significant digits of a number in a spreadsheet

FORMULA = "The cell contains a formula, which we do not calculate. Enter the value instead."
DATE = "The spreadsheet has converted this value to a date. Enter the value again."
ERROR = "The cell contains a spreadsheet error. Enter a value."

_PART = b"PK\x01\x02"  # signature of a part in the ZIP file's directory
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PLACE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_DATE_FORMATS = {*range(14, 23), *range(45, 48)}  # numbers of the built-in date formats
FORMAT_LENGTH_MAX = 255  # the maximum in Excel
# Quoted text, an escaped character, or a color or condition. Without its end, each extends to the
# end of the format. So the format is scanned once, even if none of its opening brackets is closed.
_NOT_IN_FORMAT = re.compile(r'"[^"]*(?:"|\Z)|\\.|\[[^\]]*(?:\]|\Z)', re.DOTALL)

Start = Callable[[str, dict[str, str]], None]


class UnreadableSheet(Exception):
    """The sheet cannot be parsed. The message tells the user the reason and what to do."""


class Cell(msgspec.Struct, frozen=True):
    text: str = ""
    fault: str | None = None


def is_zip(raw: bytes) -> bool:
    return raw.startswith((b"PK\x03\x04", b"PK\x05\x06"))


def read(raw: bytes, *, lines_max: int) -> list[list[Cell]]:
    """Returns all rows of the sheet, including empty rows."""
    # Limit the number of parts before `zipfile` reads the ZIP directory.
    if raw.count(_PART) > PARTS_MAX:
        raise UnreadableSheet("The .xlsx file has too many parts.")
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as packed:
            return _read(_Parts(packed), lines_max)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, KeyError):
        # RuntimeError: the file is encrypted. KeyError: the file lacks a part or a sheet's id.
        raise UnreadableSheet(
            "The file is not a readable .xlsx file. Save it again as “Excel Workbook (.xlsx)”."
        ) from None
    except (expat.ExpatError, ValueError, LookupError):  # LookupError: an unknown encoding
        raise UnreadableSheet("The .xlsx file is damaged. Save it again.") from None


def _read(parts: "_Parts", lines_max: int) -> list[list[Cell]]:
    targets = _targets(parts)
    texts = _texts(parts, targets.get("sharedStrings"))
    dates = _date_styles(parts, targets.get("styles"))
    found = _Sheet(texts, dates, lines_max)
    parts.parse(_sheet_path(parts, targets), found.start, found.end, found.hear)
    return found.lines


class _Parts:
    """The parts of the ZIP file, with a limit on their total unpacked size."""

    def __init__(self, packed: zipfile.ZipFile) -> None:
        self._packed = packed
        self._bytes_left = UNPACKED_BYTES_MAX
        self._nodes_left = NODES_MAX
        self._depth = 0

    def parse(
        self,
        name: str,
        start: Start,
        end: Callable[[str], None] | None = None,
        text: Callable[[str], None] | None = None,
    ) -> None:
        # With namespaces, the parser would copy a namespace's whole URL for each tag.
        parser = expat.ParserCreate(intern=None)
        parser.buffer_text = True

        def enter(tag: str, values: dict[str, str]) -> None:
            self._enter(values)
            start(_local(tag), values)

        def leave(tag: str) -> None:
            self._depth -= 1
            if end is not None:
                end(_local(tag))

        self._depth = 0
        parser.StartElementHandler = enter
        parser.EndElementHandler = leave
        if text is not None:
            parser.CharacterDataHandler = text
        parser.StartDoctypeDeclHandler = _reject_entities
        fed = 0
        with self._open(name) as part:
            for chunk in self._chunks(part):
                parser.Parse(chunk, False)
                fed += len(chunk)
                if fed - parser.CurrentByteIndex > TAG_BYTES_MAX:
                    raise UnreadableSheet("The .xlsx file is damaged: a tag is too long.")
            parser.Parse(b"", True)

    def _enter(self, values: dict[str, str]) -> None:
        self._depth += 1
        self._nodes_left -= 1 + len(values)
        if self._depth > DEPTH_MAX:
            raise UnreadableSheet("The .xlsx file is damaged: its elements are nested too deeply.")
        if self._nodes_left < 0:
            raise UnreadableSheet("The sheet has too many cells.")

    def _open(self, name: str) -> IO[bytes]:
        # Other compression methods need more memory, and no spreadsheet program uses them.
        if self._packed.getinfo(name).compress_type not in _COMPRESSIONS:
            raise zipfile.BadZipFile("another compression method")
        return self._packed.open(name)

    def _chunks(self, part: IO[bytes]) -> Iterator[bytes]:
        # Count the unpacked bytes, because the sizes in the ZIP directory can be wrong.
        while chunk := part.read(CHUNK_BYTES):
            self._bytes_left -= len(chunk)
            if self._bytes_left < 0:
                mebibytes = UNPACKED_BYTES_MAX // 1024 // 1024
                raise UnreadableSheet(f"The .xlsx file is larger than {mebibytes} MiB unpacked.")
            yield chunk


def _reject_entities(*_: object) -> None:
    raise UnreadableSheet("The .xlsx file defines XML entities, which no spreadsheet program does.")


def _local(tag: str) -> str:
    """Returns the name of an XML element or attribute without its namespace's prefix."""
    return tag.rpartition(":")[2]


def _value(values: dict[str, str], name: str) -> str:
    """Returns an XML attribute's value, whatever its namespace."""
    return next((value for key, value in values.items() if _local(key) == name), "")


def _targets(parts: _Parts) -> dict[str, str]:
    """Maps the ids and the types of the workbook's parts to their paths."""
    targets: dict[str, str] = {}

    def start(tag: str, values: dict[str, str]) -> None:
        if tag == "Relationship" and values.get("TargetMode") != "External":
            target = values.get("Target", "")
            path = target[1:] if target.startswith("/") else f"xl/{target}"
            targets[values.get("Id", "")] = path
            targets[values.get("Type", "").rpartition("/")[2]] = path

    parts.parse("xl/_rels/workbook.xml.rels", start)
    return targets


def _sheet_path(parts: _Parts, targets: dict[str, str]) -> str:
    sheets: list[str] = []

    def start(tag: str, values: dict[str, str]) -> None:
        if tag == "sheet" and values.get("state", "visible") == "visible":
            sheets.append(_value(values, "id"))

    parts.parse("xl/workbook.xml", start)
    if not sheets:
        raise UnreadableSheet("The .xlsx file has no visible sheet.")
    return targets[sheets[0]]


def _texts(parts: _Parts, path: str | None) -> list[str]:
    """Returns the shared strings, to which cells refer by number."""
    if path is None:
        return []
    found = _SharedTexts()
    parts.parse(path, found.start, found.end, found.hear)
    return found.texts


class _SharedTexts:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self._heard: list[str] = []
        self._is_text = False

    def start(self, tag: str, _values: dict[str, str]) -> None:
        if tag == "si":
            self._heard = []
            if len(self.texts) > CELLS_MAX:
                raise UnreadableSheet("The sheet has too many cells.")
        self._is_text = tag == "t"

    def hear(self, text: str) -> None:
        if self._is_text:
            self._heard.append(text)

    def end(self, tag: str) -> None:
        self._is_text = False
        if tag == "si":
            self.texts.append("".join(self._heard).strip()[:TEXT_LENGTH_MAX])


def _date_styles(parts: _Parts, path: str | None) -> set[str]:
    """Returns the indexes of the cell styles that show a number as a date."""
    if path is None:
        return set()
    formats, styles, inside = set(_DATE_FORMATS), list[int](), list[str]()

    def start(tag: str, values: dict[str, str]) -> None:
        if tag == "numFmt" and _is_date(values.get("formatCode", "")):
            formats.add(int(values.get("numFmtId", "0")))
        elif tag == "xf" and inside[-1:] == ["cellXfs"]:
            styles.append(int(values.get("numFmtId", "0")))
        inside.append(tag)

    def end(_tag: str) -> None:
        inside.pop()

    parts.parse(path, start, end)
    return {str(place) for place, style in enumerate(styles) if style in formats}


def _is_date(code: str) -> bool:
    if len(code) > FORMAT_LENGTH_MAX:
        raise UnreadableSheet("The .xlsx file is damaged: a number format is too long.")
    return not set("dyhs").isdisjoint(_NOT_IN_FORMAT.sub("", code).lower())


class _Sheet:
    def __init__(self, texts: list[str], date_styles: set[str], lines_max: int) -> None:
        self.lines: list[list[Cell]] = []
        self._texts = texts
        self._date_styles = date_styles
        self._lines_max = lines_max
        self._cells = 0
        self._tag = ""
        self._cell: dict[str, str] = {}
        self._heard: list[str] = []
        self._has_formula = False

    def start(self, tag: str, values: dict[str, str]) -> None:
        self._tag = tag
        if tag == "c":
            self._cell, self._heard, self._has_formula = values, [], False
        elif tag == "f":
            self._has_formula = True
        elif tag == "row":
            self._add_line(values.get("r"))
        elif tag == "mergeCell":
            raise UnreadableSheet(
                f"The sheet has merged cells ({values.get('ref', '')[:20]}). Unmerge them."
            )

    def hear(self, text: str) -> None:
        if self._tag in ("v", "t"):
            self._heard.append(text)

    def end(self, tag: str) -> None:
        self._tag = ""
        if tag == "c":
            self._add_cell()

    def _add_line(self, number: str | None) -> None:
        place = int(number) if number and number.isdigit() else len(self.lines) + 1
        if place <= len(self.lines):
            raise UnreadableSheet("The .xlsx file is damaged: its rows are not in order.")
        if place > self._lines_max:
            raise UnreadableSheet(
                f"The sheet has a row {place:,}. It can have at most {self._lines_max:,} lines."
            )
        self.lines += ([] for _ in range(place - len(self.lines)))

    def _add_cell(self) -> None:
        self._cells += 1
        if self._cells > CELLS_MAX or not self.lines:
            raise UnreadableSheet("The sheet has too many cells.")
        line, cell = self.lines[-1], self._read()
        column = _column(self._cell.get("r", ""), len(line))
        if column < len(line):
            raise UnreadableSheet("The .xlsx file is damaged: its cells are not in order.")
        if column >= COLUMNS_MAX:
            if cell.text or cell.fault:
                raise UnreadableSheet(f"The sheet has more than {COLUMNS_MAX} columns.")
            return
        line.extend([Cell()] * (column - len(line)))
        line.append(cell)

    def _read(self) -> Cell:
        kind, text = self._cell.get("t", "n"), "".join(self._heard).strip()
        is_date = kind == "d" or (kind == "n" and self._cell.get("s") in self._date_styles)
        if self._has_formula:
            return Cell("", FORMULA)
        if kind == "e":
            return Cell("", ERROR)
        if is_date and text:
            return Cell("", DATE)
        if kind == "s":
            return self._shared(text)
        return _number(text) if kind == "n" and text else Cell(text[:TEXT_LENGTH_MAX])

    def _shared(self, number: str) -> Cell:
        is_known = number.isascii() and number.isdigit() and int(number) < len(self._texts)
        return Cell(self._texts[int(number)]) if is_known else Cell("", ERROR)


def _number(text: str) -> Cell:
    """Returns the number as the spreadsheet shows it: 1500.1 for 1500.0999999999999."""
    try:
        value = float(text)
        return Cell(f"{Decimal(f'{value:.{DIGITS}g}'):f}") if abs(value) < 1e18 else Cell("", ERROR)
    except ValueError:
        return Cell("", ERROR)


def _column(place: str, following: int) -> int:
    """Returns the cell's column index, such as 0 for A1, or `following` if it has no position."""
    match = _PLACE.fullmatch(place)
    if match is None:
        return following
    column = 0
    for letter in match[1]:
        column = column * 26 + ord(letter) - ord("A") + 1
    return column - 1
