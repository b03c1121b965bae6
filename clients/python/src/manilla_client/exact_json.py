"""Encodes and decodes JSON with exact decimals instead of floats."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

DIGITS_MAX = 30


def dumps(value: object) -> str:
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, float):
        raise TypeError("Amounts must be Decimal or int, not float.")
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_key(k)}:{dumps(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def pretty(value: object, margin: str = "") -> str:
    """Encodes a value as indented JSON with exact decimals."""
    inner = margin + "  "
    if isinstance(value, Mapping) and value:
        lines = [f"{inner}{_key(k)}: {pretty(v, inner)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{margin}}}"
    if isinstance(value, list | tuple) and value:
        return "[\n" + ",\n".join(inner + pretty(v, inner) for v in value) + f"\n{margin}]"
    return dumps(value)


def loads(text: bytes) -> Any:
    """Decodes JSON. Raises ValueError if the text is not JSON."""
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError(f"{value} is not an amount.")
    if abs(value.adjusted()) > DIGITS_MAX:
        raise ValueError("The amount has too many digits.")
    return format(value, "f")


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError("Keys must be strings.")
    return json.dumps(name, ensure_ascii=False)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
