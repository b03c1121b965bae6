"""Turns a JSON object or a query string into a struct, and reports every bad field at once."""

from decimal import Decimal
from functools import cache
from typing import Annotated, Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec

from manilla.api.refusals import InvalidAmount, ValidationFailed
from manilla.kit import strict_json

Given = TypeVar("Given", bound=msgspec.Struct)

# An amount of major units, exact as it was sent. Its range depends on the currency, so the use case
# that knows the currency checks it.
AMOUNT_TAG = "amount"
Amount = Annotated[Decimal, msgspec.Meta(extra={AMOUNT_TAG: True})]


def read_body(kind: type[Given], raw: bytes, *, compressed: bool) -> Given:
    if compressed:
        raise ValidationFailed("Send the body as it is, without Content-Encoding.")
    try:
        document = strict_json.decode(raw)
    except strict_json.JsonError as error:
        raise ValidationFailed(str(error)) from None
    if not isinstance(document, dict):
        raise ValidationFailed("The body must be a JSON object.")
    return read_fields(kind, document)


def read_query(kind: type[Given], raw: bytes) -> Given:
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise ValidationFailed("The query is not UTF-8.") from None
    names = [name for name, _ in pairs]
    repeated = {
        field.sent_as: "This may be given only once."
        for field in _fields(kind)
        if names.count(field.sent_as) > 1
    }
    if repeated:
        raise ValidationFailed(errors=repeated)
    return read_fields(kind, dict(pairs))


def read_fields(kind: type[Given], given: dict[str, Any]) -> Given:
    """What is null counts as not given; what the struct does not know is passed over."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    only_amounts = True
    for field in _fields(kind):
        value = given.get(field.sent_as)
        try:
            if value is not None:
                values[field.name] = _convert(value, field)
            elif field.is_required:
                raise _FieldError("This field is required.")
        except _FieldError as error:
            errors[field.sent_as] = str(error)
            only_amounts = only_amounts and field.is_amount
    if errors:
        raise InvalidAmount(errors=errors) if only_amounts else ValidationFailed(errors=errors)
    return kind(**values)


class _Field(msgspec.Struct, frozen=True):
    name: str
    sent_as: str
    kind: Any
    is_required: bool
    is_amount: bool


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[_Field, ...]:
    return tuple(
        _Field(info.name, info.encode_name, info.type, info.required, _is_amount(info.type))
        for info in msgspec.structs.fields(kind)
    )


class _FieldError(Exception):
    pass


def _convert(value: Any, field: _Field) -> Any:
    if not strict_json.is_storable(value):
        raise _FieldError("This has a character that is not text (NUL or half a surrogate pair).")
    if field.is_amount:
        return _amount(value)
    try:
        return msgspec.convert(value, field.kind)
    except msgspec.ValidationError as error:
        raise _FieldError(f"{error}.") from None


def _amount(value: Any) -> Decimal:
    # msgspec would take "NaN" and other strings for a Decimal; bool is an int to Python.
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _FieldError("Expected a number.")
    return Decimal(value)


def _is_amount(kind: Any) -> bool:
    if get_origin(kind) is not Annotated:
        return False
    return any(
        isinstance(meta, msgspec.Meta) and (meta.extra or {}).get(AMOUNT_TAG)
        for meta in get_args(kind)[1:]
    )
