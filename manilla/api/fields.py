"""Converts a JSON object or a query string to a struct, and reports all invalid fields at once.

A struct can define a method `field_errors` that validates fields together: see `_read_one_by_one`.
"""

import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from manilla.api.refusals import InvalidAmount, ValidationFailed
from manilla.kit import http, money, outbound, strict_json
from manilla.kit.money import Money
from manilla.kit.texts import (
    CHECK_TAG,
    LINE_ENDS,
    NO_CONTROLS,
    check_line,
    has_controls,
    is_email,
)

Given = TypeVar("Given", bound=msgspec.Struct)

# Marks a field with an amount in major units. The use case checks the amount's range.
AMOUNT_TAG = "amount"
Amount = Annotated[Decimal, msgspec.Meta(extra={AMOUNT_TAG: True})]

# Marks the function that validates a URL in production mode. The URL's host must be public.
PUBLIC_CHECK_TAG = "public_check"
NO_URL = "Expected a URL: https://… or http://…"
NOT_PUBLIC = "Expected a public URL: notifications are not sent to private hosts."


def _check_address(text: str) -> str | None:
    return None if http.is_web_address(text) else NO_URL


def _check_public_address(text: str) -> str | None:
    problem = _check_address(text)
    return NOT_PUBLIC if problem is None and outbound.has_private_host(text) else problem


def address_problem(text: str, *, is_public_only: bool) -> str | None:
    """Returns the error message for a notification URL, or None if the URL is valid."""
    return (_check_public_address if is_public_only else _check_address)(text)


def _check_email(text: str) -> str | None:
    return None if is_email(text) else "Expected an email address."


def _check_letters(text: str) -> str | None:
    return None if text.isascii() and text.isalpha() else "Expected a three-letter code."


def _check_lines(text: str) -> str | None:
    return NO_CONTROLS if has_controls(text, allowed=LINE_ENDS) else None


def _check_reference(text: str) -> str | None:
    return check_line(text) if text.strip() else "This field is required."


WebAddress = Annotated[str, msgspec.Meta(extra={CHECK_TAG: _check_address})]
CallbackAddress = Annotated[
    str,
    msgspec.Meta(extra={CHECK_TAG: _check_address, PUBLIC_CHECK_TAG: _check_public_address}),
]
Email = Annotated[str, msgspec.Meta(max_length=100, extra={CHECK_TAG: _check_email})]
Reference = Annotated[str, msgspec.Meta(max_length=60, extra={CHECK_TAG: _check_reference})]
# One line of text that is not blank. Each field with this type adds its own maximum length.
Title = Annotated[str, msgspec.Meta(extra={CHECK_TAG: _check_reference})]
Lines = Annotated[str, msgspec.Meta(extra={CHECK_TAG: _check_lines})]
CurrencyCode = Annotated[
    str, msgspec.Meta(min_length=3, max_length=3, extra={CHECK_TAG: _check_letters})
]


def read_body(
    kind: type[Given], raw: bytes, *, compressed: bool, is_public_only: bool = False
) -> Given:
    """Parses a JSON body. If `is_public_only`, callback URLs with a private host are rejected."""
    if compressed:
        raise ValidationFailed("Send the body uncompressed, without Content-Encoding.")
    if not raw and not requires_field(kind):
        return kind()
    try:
        document = strict_json.decode(raw)
    except strict_json.JsonError as error:
        raise ValidationFailed(str(error)) from None
    if not isinstance(document, dict):
        raise ValidationFailed("The body must be a JSON object.")
    # A body without \\u escapes cannot contain NUL or surrogates, so the fast parser is enough.
    read = None if b"\\u" in raw else _read_at_once(_checks(kind, is_public_only), document)
    return read or _read_one_by_one(kind, _fields(kind, is_public_only), document)


def requires_field(kind: type[msgspec.Struct]) -> bool:
    """Returns whether a body of this type has a required field. If not, the body can be empty."""
    return any(field.is_required for field in _fields(kind))


class _BodyChecks(msgspec.Struct, Generic[Given], frozen=True):
    """The checks that `_read_at_once` applies to request bodies of one type."""

    kind: type[Given]
    amounts: tuple[str, ...]
    single: tuple[tuple[Callable[[Any], Any], Callable[[str], str | None]], ...]
    optional_texts: frozenset[str]
    together: Callable[[dict[str, Any]], dict[str, str]] | None


@cache
def _checks(kind: type[Given], is_public_only: bool) -> _BodyChecks[Given]:
    fields = _fields(kind, is_public_only)
    return _BodyChecks(
        kind,
        amounts=tuple(field.sent_as for field in fields if field.is_amount),
        single=tuple((attrgetter(field.name), field.check) for field in fields if field.check),
        optional_texts=frozenset(field.sent_as for field in fields if field.is_optional_text),
        together=getattr(kind, "field_errors", None),
    )


def _read_at_once(checks: _BodyChecks[Given], given: dict[str, Any]) -> Given | None:
    """Parses a valid body fast. Returns None if the body may be invalid."""
    values = given.values()
    if None in values or "" in values:
        given = _without_absent(checks.optional_texts, given)
    try:
        read = msgspec.convert(given, checks.kind)
    except msgspec.ValidationError:
        return None
    for name in checks.amounts:
        if type(given.get(name)) not in (int, Decimal):
            return None
    for value_of, check in checks.single:
        value = value_of(read)
        if value is not None and check(value):
            return None
    if checks.together is not None and checks.together(msgspec.structs.asdict(read)):
        return None
    return read


def _without_absent(optional_texts: Collection[str], given: dict[str, Any]) -> dict[str, Any]:
    """Removes values that count as absent: null, and empty strings in optional text fields."""
    return {
        name: value
        for name, value in given.items()
        if value is not None and not (value == "" and name in optional_texts)
    }


def read_query(kind: type[Given], raw: bytes) -> Given:
    """Parses a query string.

    Unknown parameters and empty values are ignored unless the struct forbids unknown fields.
    """
    return (_read_short_query if len(raw) <= SHORT_QUERY_BYTES else _read_query)(kind, raw)


def _read_query(kind: type[Given], raw: bytes) -> Given:
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise ValidationFailed("The query is not UTF-8.") from None
    names, fields = [name for name, _ in pairs], _fields(kind)
    errors = {
        field.sent_as: "Expected only one value."
        for field in fields
        if names.count(field.sent_as) > 1
    }
    if kind.__struct_config__.forbid_unknown_fields:
        unknown = set(names) - {field.sent_as for field in fields}
        errors |= dict.fromkeys(sorted(unknown), "There is no such parameter.")
        # Reject empty values: an empty cursor, for example, must not return the first page again.
        empty = {name for name, text in pairs if not text} - errors.keys()
        errors |= dict.fromkeys(sorted(empty), NO_VALUE)
    if errors:
        raise ValidationFailed(errors=errors)
    given = dict(pairs)
    numbers = {field.sent_as for field in fields if _takes(int, field.kind)}
    return _read_one_by_one(
        kind, fields, given | {name: _number(given[name]) for name in numbers & given.keys()}
    )


# Parsed queries are cached, because merchants repeat queries such as `limit=100`.
SHORT_QUERY_BYTES = 100
_read_short_query = lru_cache(maxsize=1000)(_read_query)


def _read_one_by_one(kind: type[Given], fields: Sequence["_Field"], given: dict[str, Any]) -> Given:
    """Converts each field. Raises one exception with the errors of all fields.

    Null counts as absent, and so does empty text in an optional text field. Unknown fields are
    ignored.

    A struct's method `field_errors` is called with the valid fields and the names of the invalid
    fields. It returns an error message for each field that does not fit the other fields.
    """
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in fields:
        value = given.get(field.sent_as)
        if value == "" and field.is_optional_text:
            value = None
        try:
            if value is not None:
                values[field.name] = _convert(value, field)
            elif field.is_required:
                raise _FieldError("This field is required.")
        except _FieldError as error:
            errors[field.sent_as] = str(error)
    check_together = getattr(kind, "field_errors", None)
    if check_together is not None:
        errors = {**check_together(values, errors.keys()), **errors}
    if errors:
        amounts = {field.sent_as for field in fields if field.is_amount}
        raise (
            InvalidAmount(errors=errors)
            if amounts >= set(errors)
            else ValidationFailed(errors=errors)
        )
    return kind(**values)


class _Field(msgspec.Struct, frozen=True):
    name: str
    sent_as: str
    kind: Any
    is_required: bool
    is_amount: bool
    is_optional_text: bool
    check: Callable[[str], str | None] | None


@cache
def _fields(kind: type[msgspec.Struct], is_public_only: bool = False) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            info.name,
            info.encode_name,
            info.type,
            info.required,
            bool(_tag(info.type, AMOUNT_TAG)),
            not info.required and _takes(str, info.type),
            (is_public_only and _tag(info.type, PUBLIC_CHECK_TAG)) or _tag(info.type, CHECK_TAG),
        )
        for info in msgspec.structs.fields(kind)
    )


def _number(text: str) -> int | str:
    """Converts text to a whole number. Returns any other text unchanged."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else text


class _FieldError(Exception):
    pass


NO_VALUE = "Expected a value. Omit the parameter if you have none."
NO_TIME = "Expected a time with an offset, such as 2026-01-31T12:00:00Z (RFC 3339)."

# Translates msgspec's error messages into messages for API callers.
_WORDS = (
    (re.compile(r"Expected `str` of length <= (\d+)"), "Use at most {} characters."),
    (re.compile(r"Expected `str` of length >= (\d+)"), "Use at least {} characters."),
    (re.compile(r"Expected `int` >= (-?\d+)"), "Expected a whole number of at least {}."),
    (re.compile(r"Expected `int` <= (-?\d+)"), "Expected a whole number of at most {}."),
    (re.compile(r"Invalid enum value '?([^']*)'?"), "{} is not one of the allowed values."),
    (re.compile(r"Invalid RFC3339|Expected `datetime`"), NO_TIME),
    (re.compile(r"Expected `str"), "Expected text."),
    (re.compile(r"Expected `int"), "Expected a whole number."),
    (re.compile(r"Expected `bool"), "Expected true or false."),
    (re.compile(r"Expected `array"), "Expected a list."),
    (re.compile(r"Expected `object"), "Expected an object."),
)


def _in_words(report: str) -> str:
    for pattern, words in _WORDS:
        if found := pattern.match(report):
            return words.format(*found.groups())
    return "This value is not valid."


def _convert(value: Any, field: _Field) -> Any:
    if not strict_json.is_storable(value):
        raise _FieldError("Expected text without NUL characters or unpaired surrogates.")
    if field.is_amount:
        return _amount(value)
    try:
        converted = msgspec.convert(value, field.kind)
    except msgspec.ValidationError as error:
        raise _FieldError(_in_words(str(error))) from None
    problem = field.check(converted) if field.check else None
    if problem:
        raise _FieldError(problem)
    return converted


def _amount(value: Any) -> Decimal:
    # Reject bool, which is a subclass of int.
    # Also reject strings: msgspec would convert them to Decimal, even "NaN".
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _FieldError("Expected a number.")
    return Decimal(value)


def money_of(amount: Decimal, currency: str | None) -> Money:
    """Converts an amount to `Money`. Raises `MoneyError` if the amount is not valid.

    An unknown currency is not an error here, because the use case rejects it.
    """
    return Money.of(amount, currency if currency in money.DECIMALS else "NGN")


def _takes(plain: type, kind: Any) -> bool:
    """Returns whether a field of type `kind` accepts values of the type `plain`."""
    is_part = get_origin(kind) in (Annotated, Union, UnionType)
    return kind is plain or (is_part and any(_takes(plain, part) for part in get_args(kind)))


def _tag(kind: Any, name: str) -> Any:
    """Returns the value of a tag in a type's annotation, or None if the type has no such tag."""
    for part in (kind, *get_args(kind)):
        if get_origin(part) is Annotated:
            for meta in get_args(part)[1:]:
                if isinstance(meta, msgspec.Meta) and meta.extra and name in meta.extra:
                    return meta.extra[name]
    return None
