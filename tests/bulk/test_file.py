"""Bulk payout files in the formats that spreadsheet programs use in different countries."""

import contextlib
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

import pytest

from manilla.beneficiaries import sandbox
from manilla.bulk import file
from manilla.bulk.checks import CheckedRow, RowChecks
from manilla.kit.money import Money
from manilla.methods.catalogue import load
from manilla.methods.method import Method
from manilla.services import Services

HEADER = ",".join(file.COLUMNS)
TO = "058,0123456789,Ada Obi,,"


@pytest.fixture(scope="module")
async def methods(services: Services) -> dict[str, Method]:
    return {method.code: method for method in await load(services.db)}


def _check(
    methods: dict[str, Method], content: str | bytes, code: str = "providera_ngn_transfer"
) -> Sequence[CheckedRow]:
    raw = content.encode() if isinstance(content, str) else content
    known = [] if code == "platform" else sandbox.BANKS["providera"]
    row_checks = RowChecks(methods[code], known, lambda amount, _: methods[code].price(amount))
    return [row_checks.check(row) for row in file.read(raw)]


def _error(row: CheckedRow) -> str:
    assert row.error is not None, row
    return row.error


def test_a_file_of_a_nigerian_spreadsheet_is_read_exactly(methods: dict[str, Method]) -> None:
    amounts = ['"1,500.50"', "1500.5", '"₦1,500.50"', '"NGN 1,500.50"', " 1500.50 "]
    rows = [f"{amount},{TO}" for amount in amounts]
    checked = _check(methods, "\ufeff" + "\r\n".join([HEADER, *rows]))
    assert [row.amount for row in checked] == [Money("NGN", 150_050)] * 5
    assert [row.error for row in checked] == [None] * 5


@pytest.mark.parametrize("written", ["1500,50", "1.500,50", "1.500", "150.000.000", "1500,5"])
def test_decimal_commas_of_a_german_spreadsheet_are_errors(
    methods: dict[str, Method], written: str
) -> None:
    header, to = HEADER.replace(",", ";"), TO.replace(",", ";")
    good, bad = _check(methods, f"{header}\r\n1500.50;{to}\r\n{written};{to}\r\n")
    assert (good.error, good.amount) == (None, Money("NGN", 150_050))
    assert "Write " in _error(bad)
    assert bad.amount.minor == 0


def test_a_decimal_comma_without_quotation_marks_does_not_shift_columns(
    methods: dict[str, Method],
) -> None:
    [row] = _check(methods, f"{HEADER}\n1500,50,{TO}July")
    assert "more values than" in _error(row)
    # A row with empty optional columns still has as many values as the header.
    for code in ("providera_ngn_transfer", "platform"):
        [row] = _check(methods, f"{HEADER}\n1500,50,GTBank,0123456789", code)
        assert row.error is not None
        [row] = _check(methods, "amount,bank_code,account_number,,\n1500,50,058,0123456789,", code)
        assert "more values than" in _error(row)


def test_columns_after_the_last_named_one_may_be_empty(methods: dict[str, Method]) -> None:
    [row] = _check(methods, "amount,bank_code,account_number,,\n1500.50,058,0123456789,,")
    assert (row.error, row.amount) == (None, Money("NGN", 150_050))


def test_tabs_separate_too(methods: dict[str, Method]) -> None:
    content = f"{HEADER}\n1500.50,{TO}".replace(",", "\t")
    assert [row.error for row in _check(methods, content)] == [None]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", file.DELIMITERS)
def test_the_delimiter_is_found_whatever_ends_the_lines(
    methods: dict[str, Method], delimiter: str, line_end: str
) -> None:
    lines = ["bank_code,account_number,amount", "058,0123456789,1500.50"]
    content = line_end.join(lines).replace(",", delimiter)
    assert [row.error for row in _check(methods, content)] == [None]


def _steps(first: str, size: int) -> int:
    """Counts the instructions of our code that read a file with a long first line."""
    content = f"amount,bank_code,account_number{first * size}\n" + "1,2,3\n" * size
    steps = 0

    def count(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal steps
        frame.f_trace_opcodes = frame.f_code.co_filename == file.__file__
        steps += event == "opcode"
        return count

    traced = sys.gettrace()
    sys.settrace(count)
    try:
        with contextlib.suppress(file.BadFile):
            file.read(content.encode())
    finally:
        sys.settrace(traced)
    return steps


@pytest.mark.parametrize("first", [",", ", ", ',""', ";", "\t", '"', " ", "\ufeff", "1", "\r,"])
def test_no_first_line_makes_reading_slow(first: str) -> None:
    steps = [_steps(first, size) for size in (50, 100, 200)]
    # Twice as many steps for twice the size are linear. Four are quadratic.
    assert steps[2] - steps[1] < 3 * max(steps[1] - steps[0], 100)


def test_a_file_in_windows_encoding_is_rejected_with_what_to_do(methods: dict[str, Method]) -> None:
    content = f"{HEADER}\n1500.50,058,0123456789,Jürgen,,".encode("cp1252")
    with pytest.raises(file.BadFile, match="CSV UTF-8"):
        _check(methods, content)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("1500.50,58,0123456789,,,", "Did you mean 058, Guaranty Trust Bank?"),
        ("1500.50,,0123456789,,,", "The bank is missing."),
        ("1500.50,058,,,,", "The account number is missing."),
        ("1500.50,058,12345678901,,,", "The account number must have 10 digits."),
        (",058,0123456789,,,", "Write an amount, such as 1500.50."),
        ("1,058,0123456789,,,", "The amount must be at least ₦100.00"),
    ],
)
def test_errors_of_a_row_are_plain_sentences(
    methods: dict[str, Method], row: str, text: str
) -> None:
    [checked] = _check(methods, f"{HEADER}\n{row}")
    assert text in _error(checked)
    assert "_" not in _error(checked)


@pytest.mark.parametrize("character", ["\x1b", "\u202e", "\u2066"], ids=ascii)
@pytest.mark.parametrize("column", ["name", "reference", "description"])
def test_a_cell_has_no_control_characters(
    methods: dict[str, Method], column: str, character: str
) -> None:
    header = f"amount,bank_code,account_number,{column}"
    [row] = _check(methods, f"{header}\n1500,058,0123456789,A{character}B")
    assert "plain text" in _error(row)
