"""Parses the cards of paid charges, and the responses to charges of saved cards."""

import calendar
from collections.abc import Callable, Collection, Mapping
from datetime import date
from typing import Any, TypeVar

from manilla.providers import reading, replies
from manilla.providers.port import Answer, RefusalCode, Refused, ReusableCard, WayCharge
from manilla.providers.replies import Read, Reply

Value = TypeVar("Value")

TOKEN_LENGTH_MAX = 200
CENTURY = 2000
NO_CALL = Refused(RefusalCode.NOT_SUPPORTED, "The provider's API cannot delete a saved card.")


def card(data: Any, token: str, names: Mapping[str, str], expires: date | None) -> ReusableCard:
    """Returns the card with this token. `names` has the provider's names of brand and last4."""
    return ReusableCard(
        token=token,
        brand=reading.optional_text(data, names["brand"]),
        last4=reading.optional_text(data, names["last4"])[-4:],
        expires=expires,
    )


def token(data: Any, name: str) -> str | None:
    """Returns the token unchanged, or None if the response has no usable token."""
    given = data.get(name) if isinstance(data, dict) else None
    if not isinstance(given, str) or not 0 < len(given) <= TOKEN_LENGTH_MAX:
        return None
    return given if given.isprintable() and " " not in given else None


def expiry(month: Any, year: Any) -> date | None:
    """Returns the last day of the month, or None. The year has two or four digits."""
    texts = str(month).strip(), str(year).strip()
    if not all(each.isascii() and each.isdigit() and len(each) <= 4 for each in texts):
        return None
    number, full = int(texts[0]), int(texts[1])
    full += CENTURY if full < 100 else 0
    if not 1 <= number <= 12 or not CENTURY <= full < CENTURY + 200:
        return None
    return date(full, number, calendar.monthrange(full, number)[1])


def read_charge(data: Any, name: str, reference: str) -> WayCharge:
    """Parses the response to a charge, whose result a status query finds."""
    reading.same_reference(data, name, reference)
    return WayCharge()


def decide(texts: Collection[str], read: Read[Value]) -> Callable[[Reply], Answer[Value]]:
    """Interprets the response to a new charge or mandate. After these errors, none exists.

    After any other error it may exist, and only a status query decides.
    """

    def final(reply: Reply) -> RefusalCode | None:
        is_final = any(text in reply.message.lower() for text in texts)
        return RefusalCode.PAYMENT_DECLINED if is_final else None

    return lambda reply: replies.decide_documented(reply, read, final)
