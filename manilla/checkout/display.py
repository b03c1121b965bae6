"""Formats names and texts on the checkout pages."""

import re

from manilla.kit.display import clean, duration, money
from manilla.languages.language import CustomerLanguage
from manilla.methods.method import Method
from manilla.payments.ways import CheckoutEntry, join_names

__all__ = ["clean", "duration", "gateway", "money", "name"]

NAME_MAX = 100

# These words are removed from the end of a method's name, because its label contains them.
_SAID_ALREADY = re.compile(r"(?<!\s)\s+(checkout|bank transfer)$", re.IGNORECASE)


def name(text: str) -> str:
    """Returns a merchant's name as one line of text, or a default if it is empty."""
    return clean(text.replace("\n", " "), NAME_MAX).replace("\n", " ") or "the merchant"


def gateway(method: Method) -> str:
    """Returns a payment method's name, without words that its label already contains."""
    return name(_SAID_ALREADY.sub("", method.name))


def label(language: CustomerLanguage, entry: CheckoutEntry) -> str:
    """Returns a checkout option's label, such as `Card, bank transfer or USSD`."""
    names = [language.gettext(name) for name in entry.names]
    return join_names(names, language.gettext("%(names)s or %(last)s"))
