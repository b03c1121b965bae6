"""Formatting of names and texts on checkout."""

import re

from manilla.kit.display import clean, duration, money
from manilla.methods.method import Method

__all__ = ["clean", "duration", "gateway", "money", "name"]

NAME_MAX = 100

# words that the method's label already contains
_SAID_ALREADY = re.compile(r"\s+(checkout|bank transfer)$", re.IGNORECASE)


def name(text: str) -> str:
    """A merchant's name on one line."""
    return clean(text.replace("\n", " "), NAME_MAX).replace("\n", " ") or "the merchant"


def gateway(method: Method) -> str:
    """A method's name without the words that the label already contains."""
    return name(_SAID_ALREADY.sub("", method.name))
