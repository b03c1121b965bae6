"""Strict JSON for money: numbers are exact, and ambiguous documents are rejected.

The standard library decodes, because it passes on every key-value pair of an object (so repeated
keys are detected) and every number as text (so no digit goes through a float). msgspec encodes.
"""

import json
import re
from decimal import Decimal
from typing import Any

import msgspec

DEPTH_MAX = 16

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_encoder = msgspec.json.Encoder(decimal_format="number")
encode, encode_into = _encoder.encode, _encoder.encode_into


class JsonError(ValueError):
    """The document is invalid; the message tells the sender why."""


def decode(raw: bytes) -> Any:
    try:
        value = _decoder.decode(raw.decode("utf-8"))
    except UnicodeDecodeError:
        raise JsonError("The body is not UTF-8.") from None
    except JsonError:
        raise
    except RecursionError:
        raise _too_deep() from None
    except (ValueError, ArithmeticError):
        raise JsonError("The body is not valid JSON.") from None
    if _deeper_than(value, DEPTH_MAX):
        raise _too_deep()
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise JsonError("The body repeats a key.")
    return result


def _constant(name: str) -> None:
    raise JsonError(f"{name} is not a JSON number.")


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        return BEYOND_BOUNDS


def _integer(text: str) -> int | Decimal:
    try:
        return int(text)
    except ValueError:
        return BEYOND_BOUNDS


# Stands for a well-formed number that is too large or too precise to represent. It is not a valid
# amount, so field validation rejects it.
BEYOND_BOUNDS = Decimal("Infinity")

_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_number, parse_int=_integer, parse_constant=_constant
)


def _deeper_than(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_deeper_than(item, levels - 1) for item in value.values())
    if isinstance(value, list):
        return levels == 0 or any(_deeper_than(item, levels - 1) for item in value)
    return False


def _too_deep() -> JsonError:
    return JsonError(f"The body is nested more than {DEPTH_MAX} levels deep.")


def is_storable(value: Any) -> bool:
    """False if a string has characters that cannot be stored: NUL or a lone surrogate."""
    if isinstance(value, str):
        return "\x00" not in value and (value.isascii() or not _LONE_SURROGATE.search(value))
    if isinstance(value, dict):
        return all(is_storable(key) and is_storable(item) for key, item in value.items())
    if isinstance(value, list):
        return all(is_storable(item) for item in value)
    return True
