"""A file of payouts as people write it: comma-separated, one payout a line."""

import csv
import io

import msgspec

from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError
from manilla.methods.method import Method
from manilla.payouts import beneficiary, methods, nuban
from manilla.payouts.refusals import InvalidBeneficiary
from manilla.providers.port import Bank

BYTES_MAX = 1024 * 1024
ROWS_MAX = 1_000
LINE_ENDS_MAX = 20_000  # of all kinds: a text may have several lines, and a line two ends
COLUMNS = ("amount", "bank_code", "account_number", "name", "reference", "description")
NEEDED = COLUMNS[:3]
REFERENCE_LENGTH_MAX, DESCRIPTION_LENGTH_MAX = 60, 255
CELL_LENGTH_MAX = 300
ODD_NUMBER = "The account number's check digit does not fit the bank."


class BadFile(Refusal):
    status, code = 400, "BAD_FILE"
    message = "This file cannot be read."


class FileRow(msgspec.Struct, frozen=True):
    number: int  # of the payouts in the file, from 1
    amount: str
    bank_code: str
    account_number: str
    name: str
    reference: str
    description: str


class Judged(msgspec.Struct, frozen=True):
    """A row, and what is wrong with it."""

    row: FileRow
    amount: Money
    fee: Money
    error: str | None
    warning: str | None = None


def read(raw: bytes) -> list[FileRow]:
    if len(raw) > BYTES_MAX:
        raise BadFile("The file is larger than 1 MiB.")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("The file is not UTF-8. Save it as “CSV UTF-8”.") from None
    if "\0" in text:
        raise BadFile("The file is not a CSV file.")
    # A million empty lines would keep everybody waiting for as long as it takes to read them.
    if text.count("\n") + text.count("\r") > LINE_ENDS_MAX:
        raise BadFile(f"The file has too many lines. At most {ROWS_MAX:,} payouts go at once.")
    first = text.partition("\n")[0]
    delimiter = ";" if ";" in first and "," not in first else ","
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error:
        raise BadFile("The file is not a CSV file: a quotation mark is not closed.") from None
    return _rows([line for line in lines if any(cell.strip() for cell in line)])


def _rows(lines: list[list[str]]) -> list[FileRow]:
    if not lines:
        raise BadFile("The file is empty.")
    titles = [title.strip().lower().replace(" ", "_") for title in lines[0]]
    missing = [name for name in NEEDED if name not in titles]
    if missing:
        raise BadFile(f"The first line must name the columns. Missing: {', '.join(missing)}.")
    if len(set(titles)) != len(titles):
        raise BadFile("A column is named twice.")
    if len(lines) == 1:
        raise BadFile("The file has no payouts below its first line.")
    if len(lines) - 1 > ROWS_MAX:
        raise BadFile(f"The file has {len(lines) - 1:,} payouts. At most {ROWS_MAX:,} go at once.")
    return [_row(number, titles, line) for number, line in enumerate(lines[1:], start=1)]


def _row(number: int, titles: list[str], line: list[str]) -> FileRow:
    cells = dict(zip(titles, line, strict=False))
    values = {name: cells.get(name, "").strip()[:CELL_LENGTH_MAX] for name in COLUMNS}
    return FileRow(number, **values)


def judge(rows: list[FileRow], method: Method, banks: list[Bank]) -> list[Judged]:
    """Without asking anybody: names are resolved when the rows are paid."""
    codes = {bank.code for bank in banks}
    seen: set[str] = set()
    judged = []
    for row in rows:
        faults = _faults(row, method, codes, seen)
        if faults:
            zero = Money(method.currency, 0)
            judged.append(Judged(row, zero, zero, " ".join(faults)))
            continue
        seen.add(row.reference)
        amount = _amount(row, method)
        is_odd = not method.is_manual and nuban.fits(row.bank_code, row.account_number) is False
        warning = ODD_NUMBER if is_odd else None
        judged.append(Judged(row, amount, method.fee.of(amount), None, warning))
    return judged


def _faults(row: FileRow, method: Method, codes: set[str], seen: set[str]) -> list[str]:
    """All at once: who mends a file wants to upload it once more, not three times."""
    faults = []
    for check in (
        lambda: _amount(row, method),
        lambda: _check_beneficiary(row, method, codes),
        lambda: _check_texts(row, seen),
    ):
        try:
            check()
        except Refusal as refusal:
            faults.append(refusal.text)
    return faults


def given(row: FileRow, method: Method) -> dict[str, str]:
    """The beneficiary, as the method names its parts."""
    if method.is_manual:
        return {
            methods.BANK_NAME_BY_HAND: row.bank_code,
            methods.ACCOUNT_NUMBER_BY_HAND: row.account_number,
        }
    fields = {methods.BANK_CODE: row.bank_code, methods.ACCOUNT_NUMBER: row.account_number}
    return fields | ({methods.ACCOUNT_NAME: row.name} if row.name else {})


def _amount(row: FileRow, method: Method) -> Money:
    try:
        amount = Money.of(row.amount.replace(",", ""), method.currency)
    except MoneyError:
        raise BadFile(
            f"The amount {row.amount[:30]!r} is no amount of {method.currency}."
        ) from None
    if not method.takes(amount):
        upper = f" and at most {method.maximum}" if method.maximum else ""
        raise BadFile(f"The amount must be at least {method.minimum}{upper}.")
    return amount


def _check_beneficiary(row: FileRow, method: Method, codes: set[str]) -> None:
    number = row.account_number
    if not method.is_manual and number.isdigit() and len(number) < 10:
        raise InvalidBeneficiary(
            f"The account number has {len(number)} digits, not 10. Spreadsheets drop zeros at the "
            "beginning: format the column as text."
        )
    who = beneficiary.read(method, given(row, method))
    if not method.is_manual and codes and who.bank_code not in codes:
        raise InvalidBeneficiary(f"{who.bank_code} is not a bank code of this method.")


def _check_texts(row: FileRow, seen: set[str]) -> None:
    if not row.reference.isprintable() or not row.name.isprintable():
        raise BadFile("Name and reference must be plain text on one line.")
    if len(row.reference) > REFERENCE_LENGTH_MAX:
        raise BadFile(f"The reference has more than {REFERENCE_LENGTH_MAX} characters.")
    if len(row.description) > DESCRIPTION_LENGTH_MAX:
        raise BadFile(f"The description has more than {DESCRIPTION_LENGTH_MAX} characters.")
    if row.reference and row.reference in seen:
        raise BadFile("Another row of this file has the same reference.")
