"""How other people's words look on checkout."""

import re

from manilla.kit.display import clean, duration, money
from manilla.methods.method import Method

__all__ = ["clean", "duration", "gateway", "money", "name"]

NAME_MAX = 100

# The words that a method's label says anyway.
_SAID_ALREADY = re.compile(r"\s+(checkout|bank transfer)$", re.IGNORECASE)


def name(text: str) -> str:
    """A merchant's name, on one line."""
    return clean(text.replace("\n", " "), NAME_MAX).replace("\n", " ") or "the merchant"


def gateway(method: Method) -> str:
    """A method's name, for a sentence that says already how one pays by it."""
    return name(_SAID_ALREADY.sub("", method.name))
