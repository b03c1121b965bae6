"""Validates the input from forms and query strings."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from manilla.kit import amount_input
from manilla.kit.errors import Refusal
from manilla.kit.money import Money, MoneyError

VALUE_LENGTH_MAX = 20_000

Choice = TypeVar("Choice", bound=StrEnum)


# Pairs of an error class and the form field that shows the error. The first match is used.
FieldsByRefusal = Sequence[tuple[type[Refusal], str]]


class BadForm(Refusal):
    """The form is invalid. `errors` has a message for each invalid field."""

    status, code = 400, "VALIDATION_FAILED"
    message = "Correct the marked fields."


class UploadedFile(msgspec.Struct, frozen=True):
    name: str
    content: bytes


def field_errors(refusal: Refusal, at: FieldsByRefusal = ()) -> dict[str, str]:
    """Returns a dict that maps each invalid form field to its error message."""
    if refusal.errors:
        return dict(refusal.errors)
    field = next((name for kind, name in at if isinstance(refusal, kind)), None)
    return {field: refusal.text} if field else {}


class Form:
    def __init__(self, pairs: Mapping[str, Any] | Iterator[tuple[str, Any]] | list[Any]) -> None:
        self._values: dict[str, list[str]] = {}
        self._files: dict[str, UploadedFile] = {}
        for name, value in pairs.items() if isinstance(pairs, Mapping) else pairs:
            if isinstance(value, UploadedFile):
                self._files[name] = value
            else:
                self._values.setdefault(name, []).append(_checked(name, str(value)))

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, *, at_most: int = 255) -> str:
        """Returns a field's text without surrounding white space, or "" if the field is missing."""
        value = self._values.get(name, [""])[-1].strip()
        if len(value) > at_most:
            raise BadForm(errors={name: f"Enter at most {at_most} characters."})
        return value

    def secret(self, name: str) -> str:
        """Returns a secret exactly as the user typed it, including surrounding white space."""
        return self._values.get(name, [""])[-1]

    def required(self, name: str, *, at_most: int = 255) -> str:
        value = self.text(name, at_most=at_most)
        if not value:
            raise BadForm(errors={name: "This field is required."})
        return value

    def all(self, name: str) -> list[str]:
        return [value.strip() for value in self._values.get(name, []) if value.strip()]

    def choice(self, name: str, of: type[Choice]) -> Choice:
        try:
            return of(self.text(name))
        except ValueError:
            raise BadForm(errors={name: "Choose one of the options."}) from None

    def integer(self, name: str) -> int:
        value = self.text(name)
        if not (value.isascii() and value.isdigit() and len(value) <= 15):
            raise BadForm(errors={name: "Enter a whole number, such as 15."})
        return int(value)

    def decimal(self, name: str) -> Decimal:
        try:
            return amount_input.parse_number(self.text(name))
        except MoneyError as error:
            raise BadForm(errors={name: str(error)}) from None

    def money(self, name: str, currency: str) -> Money:
        try:
            return amount_input.parse_amount(self.text(name), currency)
        except MoneyError as error:
            raise BadForm(errors={name: str(error)}) from None

    def is_checked(self, name: str) -> bool:
        return self.text(name) in ("on", "true", "yes", "1")

    def has_file(self, name: str) -> bool:
        return name in self._files

    def file(self, name: str) -> UploadedFile:
        if name not in self._files:
            raise BadForm(errors={name: "Choose a file."})
        return self._files[name]

    def pairs(self) -> list[tuple[str, str]]:
        return [(name, value) for name, values in self._values.items() for value in values]


def _checked(name: str, value: str) -> str:
    """Rejects values that are too long or contain characters that the database cannot store."""
    if len(value) > VALUE_LENGTH_MAX:
        raise BadForm(errors={name: "This text is too long."})
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise BadForm(errors={name: "This text contains characters that cannot be stored."})
    return value
