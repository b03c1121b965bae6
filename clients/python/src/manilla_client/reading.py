"""Converts JSON documents to dataclasses. Rejects documents that do not match the dataclass."""

import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from manilla_client.errors import BadAnswer
from manilla_client.exact_json import DIGITS_MAX

Kind = TypeVar("Kind")


def read(kind: type[Kind], document: object) -> Kind:
    return cast(Kind, _read(kind, document, kind.__name__))


def _read(kind: Any, value: object, where: str) -> Any:
    origin = get_origin(kind)
    if is_dataclass(kind):
        return _read_dataclass(kind, value, where)
    if origin is types.UnionType:
        inner, _ = get_args(kind)
        return None if value is None else _read(inner, value, where)
    if origin is tuple:
        items = _expect(value, list, where)
        return tuple(_read(get_args(kind)[0], item, where) for item in items)
    if origin is dict:
        _, inner = get_args(kind)
        document = _expect(value, dict, where)
        return {name: _read(inner, each, f"{where}.{name}") for name, each in document.items()}
    if origin is Literal:
        if value not in get_args(kind):
            raise BadAnswer(f"{where} has a value that this version does not know.")
        return value
    return _SIMPLE[kind](value, where)


def _read_dataclass(kind: Any, value: object, where: str) -> Any:
    document = _expect(value, dict, where)
    given = {}
    for name, hint, is_optional in _parts(kind):
        if name in document:
            given[name] = _read(hint, document[name], f"{where}.{name}")
        elif not is_optional:
            raise BadAnswer(f"{where}.{name} is missing.")
    return kind(**given)


@cache
def _parts(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (part.name, hints[part.name], part.default is not MISSING) for part in fields(kind)
    )


def _expect(value: object, kind: type, where: str) -> Any:
    # A bool is an int in Python, but not a number in JSON.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadAnswer(f"{where} is not of type {kind.__name__}.")
    return value


def _amount(value: object, where: str) -> Decimal:
    amount = value if isinstance(value, Decimal) else Decimal(_expect(value, int, where))
    if abs(amount.adjusted()) > DIGITS_MAX:
        raise BadAnswer(f"{where} has too many digits.")
    return amount


def _moment(value: object, where: str) -> datetime:
    try:
        return datetime.fromisoformat(_expect(value, str, where))
    except ValueError:
        raise BadAnswer(f"{where} is not a time.") from None


_SIMPLE: dict[Any, Callable[[object, str], Any]] = {
    str: lambda value, where: _expect(value, str, where),
    int: lambda value, where: _expect(value, int, where),
    bool: lambda value, where: _expect(value, bool, where),
    Decimal: _amount,
    datetime: _moment,
}
