"""Serializes a JSON document in the formats of common JSON libraries."""

import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

# Maps a description of each JSON spacing style to the json.dumps options that produce it.
_SPACING: dict[str, dict[str, Any]] = {
    "without spaces": {"separators": (",", ":")},
    "with spaces after commas and colons": {},
    "indented by 2": {"indent": 2},
    "indented by 4": {"indent": 4},
    "indented by a tab": {"indent": "\t"},
}
_KEYS = {"": False, "with sorted keys": True}
_LETTERS = {"": False, r"with \u escapes": True}
_SLASHES = {"": "/", r"with escaped slashes": "\\/"}
_KEPT_NUMBER = re.compile(r'"\\u0000([^"\\]*)\\u0000"')


def reserialized(body: bytes) -> Iterator[tuple[bytes, str]]:
    """Yields the JSON document in each format, with a description of the format."""
    for numbers, value in _parsed(body):
        for spacing, keys, letters, slashes in product(_SPACING, _KEYS, _LETTERS, _SLASHES):
            text = json.dumps(
                value, sort_keys=_KEYS[keys], ensure_ascii=_LETTERS[letters], **_SPACING[spacing]
            )
            text = _KEPT_NUMBER.sub(r"\1", text).replace("/", _SLASHES[slashes])
            how = ", ".join(filter(None, (spacing, keys, letters, slashes, numbers)))
            yield text.encode(errors="replace"), how


def _parsed(body: bytes) -> Iterator[tuple[str, Any]]:
    def keep(text: str) -> str:
        # Numbers are encoded as marked strings, whose quotes are removed later with _KEPT_NUMBER.
        return f"\0{text}\0"

    def shorten(text: str) -> int | float:
        number = float(text)
        return int(number) if number.is_integer() and abs(number) < 1e21 else number

    options: dict[str, dict[str, Any]] = {
        "": {"parse_float": keep, "parse_int": keep},
        "with numbers as JavaScript writes them": {"parse_float": shorten},
        "with numbers as Python writes them": {},
    }
    for numbers, how in options.items():
        try:
            yield numbers, json.loads(body, **how)
        except (ValueError, RecursionError):
            return
