"""Checks the rows of a payout file without calling a provider."""

import msgspec

from manilla.kit.amount_input import parse_amount
from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError
from manilla.kit.texts import has_controls
from manilla.methods.method import Method
from manilla.payouts.beneficiaries import banks, beneficiary, methods, nuban
from manilla.payouts.bulk.file import FileRow
from manilla.payouts.bulk.store import BatchRow
from manilla.payouts.rules import check_amount
from manilla.providers.port import Bank

REFERENCE_LENGTH_MAX, DESCRIPTION_LENGTH_MAX = 60, 255
ODD_NUMBER = "The account number's check digit does not match the bank."


class BadRow(Refusal):
    status, code = 400, "BAD_ROW"
    message = "This row cannot be paid."


class CheckedRow(msgspec.Struct, frozen=True):
    """A row with the errors found in it."""

    row: FileRow
    amount: Money
    fee: Money
    error: str | None
    warning: str | None = None


def check(rows: list[FileRow], method: Method, known: list[Bank]) -> list[CheckedRow]:
    """Checks all rows. Account names are resolved later, when the rows are paid."""
    seen: set[str] = set()
    checked = []
    for row in rows:
        errors = _errors(row, method, known, seen)
        if errors:
            zero = Money(method.currency, 0)
            checked.append(CheckedRow(row, zero, zero, " ".join(errors)))
            continue
        seen.add(row.reference)
        amount = _amount(row, method)
        is_odd = not method.is_manual and nuban.fits(row.bank_code, row.account_number) is False
        warning = ODD_NUMBER if is_odd else None
        checked.append(CheckedRow(row, amount, method.fee.of(amount), None, warning))
    return checked


def _errors(row: FileRow, method: Method, known: list[Bank], seen: set[str]) -> list[str]:
    """Returns all errors of the row at once, so that one corrected upload is enough."""
    if row.shape_error:
        return [row.shape_error]
    errors = []
    for check_part in (
        lambda: _amount(row, method),
        lambda: _check_bank(row, method, known),
        lambda: _check_account(row, method),
        lambda: _check_texts(row, seen),
    ):
        try:
            check_part()
        except Refusal as refusal:
            errors.append(refusal.text)
    return errors


def beneficiary_of(row: BatchRow, method: Method) -> dict[str, str]:
    """Returns the beneficiary with the field names of the method."""
    if method.is_manual:
        return {
            methods.MANUAL_BANK_NAME: row.bank_code,
            methods.MANUAL_ACCOUNT_NUMBER: row.account_number,
        }
    fields = {methods.BANK_CODE: row.bank_code, methods.ACCOUNT_NUMBER: row.account_number}
    return fields | ({methods.ACCOUNT_NAME: row.name} if row.name else {})


def _amount(row: FileRow, method: Method) -> Money:
    try:
        amount = parse_amount(row.amount, method.currency)
    except MoneyError as error:
        raise BadRow(f"Amount: {error}") from None
    check_amount(method, amount)
    return amount


def _check_bank(row: FileRow, method: Method, known: list[Bank]) -> None:
    code = row.bank_code
    if not code:
        raise BadRow("The bank is missing.")
    if len(code) > beneficiary.TEXT_LENGTH_MAX:
        raise BadRow("The bank has too many characters.")
    if method.is_manual:
        # A number in this column is the rest of an amount with a decimal comma, or a bank code.
        if not any(character.isalpha() for character in code):
            raise BadRow(f"Write the bank's name instead of {code}.")
    elif known and code not in {bank.code for bank in known}:
        raise BadRow(f"{code} is not a bank code of this method.{banks.suggestion(code, known)}")


def _check_account(row: FileRow, method: Method) -> None:
    number = row.account_number
    if not number:
        raise BadRow("The account number is missing.")
    if method.is_manual:
        if len(number) > beneficiary.TEXT_LENGTH_MAX:
            raise BadRow("The account number has too many characters.")
        return
    if number.isdigit() and len(number) < beneficiary.NUBAN_DIGITS:
        raise BadRow(
            f"The account number has {len(number)} digits, not 10. Spreadsheets drop zeros at the "
            "beginning: format the column as text."
        )
    beneficiary.check_account_number(number)


def _check_texts(row: FileRow, seen: set[str]) -> None:
    if any(map(has_controls, (row.bank_code, row.name, row.reference, row.description))):
        raise BadRow("Name, reference and description must be plain text on one line.")
    if len(row.name) > beneficiary.TEXT_LENGTH_MAX:
        raise BadRow(f"The name has more than {beneficiary.TEXT_LENGTH_MAX} characters.")
    if len(row.reference) > REFERENCE_LENGTH_MAX:
        raise BadRow(f"The reference has more than {REFERENCE_LENGTH_MAX} characters.")
    if len(row.description) > DESCRIPTION_LENGTH_MAX:
        raise BadRow(f"The description has more than {DESCRIPTION_LENGTH_MAX} characters.")
    if row.reference and row.reference in seen:
        raise BadRow("Another row of this file has the same reference.")
