"""Strict JSON for money: numbers are exact, and ambiguous documents are rejected.

msgspec decodes documents that are certainly unambiguous. Python's `json` decodes all other
documents, because it reports every key-value pair of an object, so repeated keys are detected. It
also reports every number as text, so no number is converted to a float. msgspec encodes all
documents.
"""

import json
import re
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET

DEPTH_MAX = 16

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_encoder = msgspec.json.Encoder(decimal_format="number")
encode, encode_into = _encoder.encode, _encoder.encode_into


class JsonError(ValueError):
    """The document is invalid. The message describes the problem to the sender."""


def decode(raw: bytes) -> Any:
    value = _decode_fast(raw)
    return _decode_strictly(raw) if value is UNSET else value


def _decode_fast(raw: bytes) -> Any:
    """Returns the value if the document is certainly valid and unambiguous, otherwise UNSET.

    msgspec is fast, but if a key is repeated, it ignores all values except the last one. Without
    escapes, each key and each string has two quotation marks. If a document has more quotation
    marks than its decoded value needs, a key is repeated.
    """
    if b"\\" in raw:
        return UNSET
    try:
        value = _fast.decode(raw)
        return value if raw.count(b'"') == 2 * _texts(value, DEPTH_MAX) else UNSET
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return UNSET


def _texts(value: Any, levels: int) -> int:
    """Counts the keys and strings in a value that is nested at most `levels` deep."""
    is_object = type(value) is dict
    if not is_object and type(value) is not list:
        return type(value) is str
    if levels == 0:
        raise _too_deep()
    number = len(value) if is_object else 0
    for item in value.values() if is_object else value:
        kind = type(item)
        if kind is str:
            number += 1
        elif kind is dict or kind is list:
            number += _texts(item, levels - 1)
    return number


def _decode_strictly(raw: bytes) -> Any:
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


# Represents a number that is too large or too precise, which field validation rejects.
BEYOND_BOUNDS = Decimal("Infinity")

_fast = msgspec.json.Decoder(float_hook=_number)
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
    """Returns True if all strings can be stored. NUL characters and lone surrogates cannot be
    stored.
    """
    if isinstance(value, str):
        return "\x00" not in value and (value.isascii() or not _LONE_SURROGATE.search(value))
    if isinstance(value, dict):
        return all(is_storable(key) and is_storable(item) for key, item in value.items())
    if isinstance(value, list):
        return all(is_storable(item) for item in value)
    return True
