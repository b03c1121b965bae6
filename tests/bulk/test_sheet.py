"""Payout files in Excel format, including damaged and malicious files."""

import io
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import xlsxwriter

from manilla.bulk import file, sheet
from manilla.bulk.file import BadFile, FileRow

HEADER = list(file.COLUMNS)
SHEET = "xl/worksheets/sheet1.xml"
FEW = 2_000  # number of XML elements
TO = ["058", "0123456789", "Ada Obi", "INV-1", "July"]


def _workbook(*rows: Sequence[Any], also: Callable[[Any, Any], object] | None = None) -> bytes:
    content = io.BytesIO()
    with xlsxwriter.Workbook(content) as book:
        cells = book.add_worksheet("Payouts")
        for number, row in enumerate([HEADER, *rows]):
            cells.write_row(number, 0, row)
        if also is not None:
            also(book, cells)
    return content.getvalue()


def _altered(raw: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(content, "w", 8) as new:
        for part in old.namelist():
            new.writestr(part, change(old.read(part)) if part == name else old.read(part))
    return content.getvalue()


def _one(raw: bytes) -> FileRow:
    [row] = file.read(raw)
    return row


def test_numbers_keep_the_digits_that_the_spreadsheet_shows() -> None:
    rows = [[amount, *TO] for amount in (1500.1, 1500.10, 0.1 + 0.2, 250, "1,500.50", 1e7)]
    read = [row.amount for row in file.read(_workbook(*rows))]
    assert read == ["1500.1", "1500.1", "0.3", "250", "1,500.50", "10000000"]


def test_an_account_number_that_lost_its_zeros_is_not_completed() -> None:
    row = _one(_workbook([1000, "058", 123456789, "", "", ""]))
    assert row.account_number == "123456789"


def test_text_keeps_its_zeros_and_a_bank_its_name() -> None:
    row = _one(_workbook([1000, "Guaranty Trust Bank", "0012345678", " Ada ", "", ""]))
    assert (row.bank_code, row.account_number, row.name) == (
        "Guaranty Trust Bank",
        "0012345678",
        "Ada",
    )


def test_a_formula_is_an_error_even_if_the_file_has_its_value() -> None:
    def formula(_book: Any, cells: Any) -> None:
        cells.write_formula(1, 0, "=1000*2", value=2000)

    row = _one(_workbook([0, *TO], also=formula))
    assert (row.amount, row.faults) == ("", {"amount": sheet.FORMULA})


def test_dates_and_errors_of_the_spreadsheet_are_errors() -> None:
    def write(book: Any, cells: Any) -> None:
        cells.write_number(1, 0, 45000, book.add_format({"num_format": "dd/mm/yyyy"}))
        cells.write_formula(1, 3, "=1/0", value="#DIV/0!")

    row = _one(_workbook([0, *TO], also=write))
    assert row.faults["amount"] == sheet.DATE
    assert "name" in row.faults


@pytest.mark.parametrize(
    ("number_format", "is_date"),
    [
        ('0.00" days"', False),
        ("[Red]0.00", False),
        ("0\\h", False),
        ('"paid" yyyy', True),
        ("[$-409]mmm\\-yy", True),
        ("[" * sheet.FORMAT_LENGTH_MAX, False),
        ('"d[' * 80 + "]y", True),
    ],
)
def test_only_the_letters_of_a_date_make_a_format_a_date(number_format: str, is_date: bool) -> None:
    def write(book: Any, cells: Any) -> None:
        cells.write_number(1, 0, 45000, book.add_format({"num_format": number_format}))

    row = _one(_workbook([0, *TO], also=write))
    assert row.faults == ({"amount": sheet.DATE} if is_date else {})


def test_a_number_format_longer_than_excel_allows_is_rejected_without_scanning_it() -> None:
    code = b'<numFmts><numFmt numFmtId="200" formatCode="%b"/></numFmts><fonts'
    brackets = b"[" * (sheet.FORMAT_LENGTH_MAX + 1)
    raw = _altered(
        _workbook([1000, *TO]),
        "xl/styles.xml",
        lambda xml: xml.replace(b"<fonts", code % brackets, 1),
    )
    assert "a number format is too long" in _reason(raw)


def test_a_file_may_name_the_bank_in_a_column_of_its_own() -> None:
    header = ["Amount", "Bank name", "Account number"]
    content = io.BytesIO()
    with xlsxwriter.Workbook(content) as book:
        cells = book.add_worksheet()
        cells.write_row(0, 0, header)
        cells.write_row(1, 0, [1000, "Zenith Bank", "0123456789"])
    row = _one(content.getvalue())
    assert (row.bank_code, row.bank_name) == ("", "Zenith Bank")


def test_only_the_first_visible_sheet_is_read() -> None:
    def hide(book: Any, _cells: Any) -> None:
        book.add_worksheet("Banks").write(0, 0, "=1")

    assert _one(_workbook([1000, *TO], also=hide)).reference == "INV-1"


def _reason(raw: bytes) -> str:
    with pytest.raises(BadFile) as refused:
        file.read(raw)
    return refused.value.text


def test_merged_cells_are_rejected() -> None:
    raw = _workbook([1000, *TO], also=lambda _, cells: cells.merge_range(2, 0, 3, 1, "x"))
    assert "merged cells (A3:B4)" in _reason(raw)


def test_a_zip_bomb_is_rejected_before_it_is_unpacked() -> None:
    raw = _altered(
        _workbook([1000, *TO]),
        SHEET,
        lambda xml: xml.replace(b"<sheetData>", b" " * (33 * 1024 * 1024) + b"<sheetData>"),
    )
    assert len(raw) < file.BYTES_MAX
    assert "larger than 32 MiB unpacked" in _reason(raw)


@pytest.mark.parametrize(
    ("part", "xml", "reason"),
    [
        (SHEET, b"<a>" * (sheet.DEPTH_MAX + 1), "nested too deeply"),
        (SHEET, b"<a>" + b"<b/>" * FEW, "too many cells"),
        (SHEET, b"<a>" + b'<b c="" d=""/>' * (FEW // 3 + 1), "too many cells"),
        (SHEET, b"<a %b" % (b" " * 2 * sheet.TAG_BYTES_MAX), "a tag is too long"),
        ("xl/styles.xml", b"<a>" * (sheet.DEPTH_MAX + 1), "nested too deeply"),
        ("xl/sharedStrings.xml", b"<a>" + b"<si/>" * FEW, "too many cells"),
    ],
)
def test_a_small_file_cannot_unpack_to_many_elements(
    monkeypatch: pytest.MonkeyPatch, part: str, xml: bytes, reason: str
) -> None:
    monkeypatch.setattr(sheet, "NODES_MAX", FEW)
    assert reason in _reason(_altered(_workbook([1000, *TO]), part, lambda _: xml))


def test_the_elements_of_all_parts_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = _workbook([1000, *TO])
    monkeypatch.setattr(sheet, "NODES_MAX", 200)
    assert file.read(raw)
    texts = b"<x/>" * 100 + b"</sst>"
    more = _altered(raw, "xl/sharedStrings.xml", lambda xml: xml.replace(b"</sst>", texts))
    assert "too many cells" in _reason(more)


def test_a_file_of_very_many_parts_is_rejected_before_they_are_listed() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for number in range(sheet.PARTS_MAX + 1):
            packed.writestr(str(number), b"")
    assert "too many parts" in _reason(content.getvalue())


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_no_spreadsheet_has_is_rejected(compression: int) -> None:
    content = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(_workbook([1000, *TO]))) as old,
        zipfile.ZipFile(content, "w", compression) as new,
    ):
        for part in old.namelist():
            new.writestr(part, old.read(part))
    assert "not a readable .xlsx file" in _reason(content.getvalue())


def test_a_csv_file_of_very_many_values_is_rejected_before_it_is_parsed() -> None:
    assert "too many values" in _reason(b"amount\n" + b"," * (sheet.CELLS_MAX + 1))


def test_a_long_namespace_is_not_copied_for_each_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    read, local = [], sheet._local

    def counted(tag: str) -> str:
        read.append(len(tag))
        return local(tag)

    monkeypatch.setattr(sheet, "_local", counted)
    parts = b'<worksheet xmlns="%b"><sheetData>' % (b"u" * 100_000), b"</sheetData></worksheet>"
    raw = _altered(_workbook([1000, *TO]), SHEET, lambda _: (b"<x:a/>" * 100).join(parts))
    assert _reason(raw) == "The file is empty."
    assert sum(read) < 10_000


def test_a_sheet_may_have_namespace_prefixes() -> None:
    def prefixed(xml: bytes) -> bytes:
        named = re.sub(rb"<(/?)([a-zA-Z]+)", rb"<\1x:\2", xml)
        return named.replace(b"xmlns=", b"xmlns:x=", 1)

    assert _one(_altered(_workbook([1000, *TO]), SHEET, prefixed)).reference == "INV-1"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_rejected(encoding: str) -> None:
    entity = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'

    def define(xml: bytes) -> bytes:
        _, _, body = xml.decode().partition("?>")
        return f'<?xml version="1.0" encoding="{encoding}"?>{entity}{body}'.encode(encoding)

    for part in (SHEET, "xl/sharedStrings.xml", "xl/workbook.xml"):
        assert "XML entities" in _reason(_altered(_workbook([1000, *TO]), part, define))


def test_a_cell_far_away_costs_nothing() -> None:
    cell = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    raw = _altered(_workbook([1000, *TO]), SHEET, lambda xml: xml.replace(b"</sheetData>", cell))
    assert "row 1,048,576" in _reason(raw)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[: len(raw) // 2],
        lambda raw: b"PK\x03\x04" + b"x" * 100,
        lambda raw: _altered(raw, SHEET, lambda xml: xml[:-20]),
        lambda raw: _altered(raw, SHEET, lambda xml: b"\xff" * 100),
        lambda raw: _altered(raw, SHEET, lambda xml: xml.replace(b"UTF-8", b"nothing", 1)),
        lambda raw: _altered(raw, "xl/workbook.xml", lambda xml: b"<workbook/>"),
        lambda raw: _altered(raw, "xl/_rels/workbook.xml.rels", lambda xml: b"<x/>"),
        lambda raw: _altered(raw, "xl/styles.xml", lambda xml: xml.replace(b'="0"', b'="a"')),
    ],
)
def test_a_damaged_file_is_rejected_with_what_to_do(change: Callable[[bytes], bytes]) -> None:
    assert _reason(change(_workbook([1000, *TO])))


def test_a_file_that_is_no_workbook_is_rejected() -> None:
    assert "neither an .xlsx file nor CSV" in _reason(b"\xd0\xcf\x11\xe0 an old .xls file")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("readme.txt", "x")
    assert "not a readable .xlsx file" in _reason(content.getvalue())


def test_a_file_with_too_many_rows_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "ROWS_MAX", 3)
    rows = [[1000, *TO]] * 4
    assert "4 payouts. It can have at most 3." in _reason(_workbook(*rows))
    assert len(file.read(_workbook(*rows[:-1]))) == 3


@pytest.mark.long
def test_a_file_has_at_most_ten_thousand_rows_and_ten_mebibytes() -> None:
    rows = [[1000, *TO]] * 10_001
    assert "10,001 payouts. It can have at most 10,000." in _reason(_workbook(*rows))
    assert len(file.read(_workbook(*rows[:-1]))) == 10_000
    assert "larger than 10 MiB" in _reason(b"x" * 11_000_000)
