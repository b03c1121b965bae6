"""Parses numbers that people type in forms, files and commands.

Accepts 1500, 1500.5 and 1,500.50, with commas only between groups of three digits. An amount may
start with its currency: ₦1500 or NGN 1500. Anything else is rejected rather than guessed, because
1500,50 means 1500.50 to some readers and 150050 to others.
"""

import re
from decimal import Decimal

from manilla.kit.money import DECIMALS, Money, MoneyError

SYMBOLS = {"NGN": "₦"}
LENGTH_MAX = 30

_NUMBER = re.compile(r"(0|[1-9][0-9]*|[1-9][0-9]{0,2}(,[0-9]{3})+)(\.[0-9]+)?")
_WITH_CURRENCY = re.compile(
    r"(?P<currency>[A-Za-z]{3}|[₦$€£¥₵])[ \u00a0]*(?P<number>.*)", re.DOTALL
)
_DECIMAL_COMMA = re.compile(r"([0-9]{1,15}|[0-9]{1,3}(\.[0-9]{3})+),[0-9]{1,2}")


def parse_amount(text: str, currency: str) -> Money:
    """Parses an amount of zero or more without rounding.

    The message of a raised MoneyError contains an example of a valid amount.
    """
    decimals = DECIMALS.get(currency)
    if decimals is None:
        raise MoneyError(f"{currency} is not an ISO 4217 currency.")
    example = f"{Decimal('1500.5') if decimals else 1500:.{decimals}f}"
    number = _parse(_without_currency(text.strip(), currency, example), "an amount", example)
    if len(f"{number:f}".partition(".")[2]) > decimals:
        places = f"at most {decimals} decimals" if decimals else "no decimals"
        raise MoneyError(f"An amount in {currency} has {places}. Write one such as {example}.")
    return Money.of(number, currency)


def parse_signed_amount(text: str, currency: str) -> Money:
    """Parses an amount that may start with a sign: -1,500.50 or +₦1500."""
    text = text.strip()
    sign, amount = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    money = parse_amount(amount, currency)
    return Money(currency, -money.minor) if sign == "-" else money


def parse_number(text: str) -> Decimal:
    """Parses a number without a currency, such as a percentage."""
    return _parse(text.strip(), "a number", "1.5")


def _without_currency(text: str, currency: str, example: str) -> str:
    match = _WITH_CURRENCY.fullmatch(text)
    if match is None:
        return text
    given = match["currency"].upper()
    if given in (currency, SYMBOLS.get(currency)):
        return match["number"]
    if given.isalpha() and given not in DECIMALS:
        return text
    raise MoneyError(f"The amount must be in {currency}. Write one such as {example}.")


def _parse(text: str, kind: str, example: str) -> Decimal:
    if len(text) <= LENGTH_MAX and _NUMBER.fullmatch(text):
        return Decimal(text.replace(",", ""))
    if _DECIMAL_COMMA.fullmatch(text):
        meant = text.replace(".", "").replace(",", ".")
        raise MoneyError(f"Use a decimal point, not a comma. Write {meant}.")
    if not text:
        raise MoneyError(f"Write {kind}, such as {example}.")
    raise MoneyError(f"“{_shortened(text)}” is not {kind}. Write one such as {example}.")


def _shortened(text: str) -> str:
    shown = "".join(each if each.isprintable() else "�" for each in text[:LENGTH_MAX])
    return shown + "…" * (len(text) > LENGTH_MAX)
