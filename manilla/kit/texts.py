"""Validates text that people enter."""

import re
from typing import Annotated

from msgspec import Meta

from manilla.kit.errors import translatable

# Control characters, line and paragraph separators and direction marks change how text is shown.
_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_NOT_IN_EMAIL = r"\s@<>()\[\]\\,;:\""
_EMAIL = re.compile(rf"[^{_NOT_IN_EMAIL}]+@[^{_NOT_IN_EMAIL}_.]+(\.[^{_NOT_IN_EMAIL}_.]+)+")

LINE_ENDS = "\t\n\r"


ONE_LINE = translatable("Use one line of text, without control characters.")
NO_CONTROLS = "Use text without control characters."


def is_line(text: str, length_max: int) -> bool:
    """Returns True if the text is one printable line, not blank and not too long."""
    return bool(text.strip()) and len(text) <= length_max and text.isprintable()


def has_controls(text: str, *, allowed: str = "") -> bool:
    """Returns True if the text has a control character that is not in `allowed`."""
    if text.isprintable():
        return False  # most texts pass this fast check
    return any(found not in allowed for found in _CONTROLS.findall(text))


# Marks a function that returns an error message for an invalid string, or None for a valid one.
CHECK_TAG = "check"


def check_line(text: str) -> str | None:
    return ONE_LINE if has_controls(text) else None


# A line of text in a request. The field that uses this type sets the maximum length.
Line = Annotated[str, Meta(extra={CHECK_TAG: check_line})]


def is_email(text: str) -> bool:
    """Returns True if we accept this email address. Quoted parts, comments, brackets and encoded
    words (`=?`) are rejected.
    """
    return text.isprintable() and "=?" not in text and _EMAIL.fullmatch(text) is not None
