"""Checks the rows of a payout file without calling a provider."""

from collections.abc import Callable, Sequence

import msgspec

from manilla.beneficiaries import banks, beneficiary, methods
from manilla.bulk.file import FileRow
from manilla.bulk.store import NewBatchRow
from manilla.kit.amount_input import parse_amount
from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError
from manilla.kit.price import Price
from manilla.kit.texts import has_controls
from manilla.methods.method import Method
from manilla.payouts.rules import check_amount
from manilla.prices.price import Purpose
from manilla.providers.port import Bank

REFERENCE_LENGTH_MAX, DESCRIPTION_LENGTH_MAX = 60, 255
ODD_NUMBER = "The account number's check digit does not match the bank."
SAME_REFERENCE = "Another row of this file has the same reference."


class BadRow(Refusal):
    status, code = 400, "BAD_ROW"
    message = "This row cannot be paid."


class CheckedRow(msgspec.Struct, frozen=True):
    """A row of a payout file, with an error for each invalid column."""

    row: FileRow
    price: Price
    faults: dict[str, str]
    warning: str | None = None

    @property
    def amount(self) -> Money:
        return self.price.amount

    @property
    def error(self) -> str | None:
        return " ".join(self.faults.values()) or None


class RowChecks:
    """Checks the rows of a payout file for one payout method. Account names are resolved later."""

    def __init__(
        self, method: Method, known: Sequence[Bank], price: Callable[[Money, Purpose | None], Price]
    ) -> None:
        self._method = method
        self._known = known
        self._price = price
        self._codes = {bank.code for bank in known}

    def check(self, row: FileRow) -> CheckedRow:
        """Returns all errors of the row together, so that the user corrects the row only once."""
        zero = Money(self._method.currency, 0)
        faults = dict(row.faults)
        for column, check_part in self._parts(row).items():
            try:
                if column not in faults:
                    check_part()
            except Refusal as refusal:
                faults[column] = refusal.text
        if faults:
            return CheckedRow(row, Price(zero, zero), faults)
        amount = self._amount(row)
        code, number = row.bank_code, row.account_number
        is_odd = not self._method.is_manual and beneficiary.check_digit_fits(code, number) is False
        price = self._price(amount, purpose_of(row))
        return CheckedRow(row, price, {}, ODD_NUMBER if is_odd else None)

    def _parts(self, row: FileRow) -> dict[str, Callable[[], object]]:
        return {
            "amount": lambda: self._amount(row),
            "bank_code": lambda: self._check_bank(row.bank_code),
            "account_number": lambda: self._check_account(row.account_number),
            "name": lambda: _check_text("name", row.name, beneficiary.TEXT_LENGTH_MAX),
            "reference": lambda: _check_text("reference", row.reference, REFERENCE_LENGTH_MAX),
            "description": lambda: _check_text(
                "description", row.description, DESCRIPTION_LENGTH_MAX
            ),
        }

    def _amount(self, row: FileRow) -> Money:
        try:
            amount = parse_amount(row.amount, self._method.currency)
        except MoneyError as error:
            raise BadRow(f"Amount: {error}") from None
        check_amount(self._method, amount)
        return amount

    def _check_bank(self, code: str) -> None:
        if not code:
            raise BadRow("The bank is missing.")
        _check_text("bank", code, beneficiary.TEXT_LENGTH_MAX)
        if self._method.is_manual:
            # A number here is a bank code, or part of an amount that was split at its comma.
            if not any(character.isalpha() for character in code):
                raise BadRow(f"Write the bank's name instead of {code}.")
        elif self._codes and code not in self._codes:
            kind = "bank" if any(character.isalpha() for character in code) else "bank code"
            meant = banks.suggestion(code, self._known)
            raise BadRow(f"“{code}” is not a {kind} of this method.{meant}")

    def _check_account(self, number: str) -> None:
        if not number:
            raise BadRow("The account number is missing.")
        if self._method.is_manual:
            _check_text("account number", number, beneficiary.TEXT_LENGTH_MAX)
        elif is_short(number):
            raise BadRow(
                f"The account number has {len(number)} digits, not 10. Spreadsheets drop zeros at "
                f"the beginning. Did you mean {with_zeros(number)}?"
            )
        else:
            beneficiary.check_account_number(number)


def purpose_of(row: FileRow) -> Purpose | None:
    """Returns the purpose, which can be exempt from a tax. Other texts have no effect."""
    return Purpose.SALARY if row.purpose == Purpose.SALARY else None


def is_short(number: str) -> bool:
    """Whether the account number is too short, probably because a spreadsheet dropped zeros."""
    return number.isascii() and number.isdigit() and len(number) < beneficiary.NUBAN_DIGITS


def with_zeros(number: str) -> str:
    return number.zfill(beneficiary.NUBAN_DIGITS)


def beneficiary_of(row: NewBatchRow, method: Method) -> dict[str, str]:
    """Returns the row's beneficiary, with the method's field names."""
    if method.is_manual:
        return {
            methods.MANUAL_BANK_NAME: row.bank_code,
            methods.MANUAL_ACCOUNT_NUMBER: row.account_number,
        }
    fields = {methods.BANK_CODE: row.bank_code, methods.ACCOUNT_NUMBER: row.account_number}
    return fields | ({methods.ACCOUNT_NAME: row.name} if row.name else {})


def _check_text(what: str, text: str, length_max: int) -> None:
    if has_controls(text):
        raise BadRow(f"The {what} must be plain text on one line.")
    if len(text) > length_max:
        raise BadRow(f"The {what} has more than {length_max} characters.")
