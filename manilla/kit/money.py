"""Represents money as integer minor units and an ISO 4217 currency. Floats are never used."""

import re
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from typing import Self

import msgspec

# ISO 4217 currencies, grouped by the number of decimals of the minor unit.
_BY_DECIMALS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD "
    "CDF CHE CHF CHW CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP "
    "GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL "
    "MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK "
    "PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB "
    "TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD XCG YER ZAR ZMW ZWG",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
DECIMALS = {code: decimals for decimals, codes in _BY_DECIMALS.items() for code in codes.split()}
# Each currency's minor unit as a decimal number of major units, for example 0.01.
_UNITS = {code: Decimal(1).scaleb(-decimals) for code, decimals in DECIMALS.items()}

LOCALE = "en_NG"

_AMOUNT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")

_ONE = Decimal(1)  # has no decimal places, like most amounts

# The sum of ninety amounts of this size fits into a 64-bit integer.
MINOR_MAX = 10**17 - 1


class MoneyError(ValueError):
    """The amount cannot be represented exactly. The message says why."""


class Money(msgspec.Struct, frozen=True, order=True):
    currency: str
    minor: int

    @classmethod
    def of(cls, amount: Decimal | int | str, currency: str) -> Self:
        """Converts an amount in major units without rounding. Raises MoneyError if that is
        impossible.
        """
        decimals = DECIMALS.get(currency)
        if decimals is None:
            raise MoneyError(f"{currency} is not an ISO 4217 currency.")
        return cls(currency, to_minor(exact_decimal(amount), decimals))

    @property
    def amount(self) -> Decimal:
        return amount_of(self.currency, self.minor)

    def percent(self, rate: Decimal, step_minor: int = 1) -> Self:
        """Returns a percentage of the amount, rounded half up to a multiple of `step_minor`."""
        if not rate:
            return type(self)(self.currency, 0)
        return self.part(rate, 100, step_minor)

    def part(self, numerator: Decimal, denominator: Decimal | int, step_minor: int = 1) -> Self:
        """Returns a fraction of the amount, rounded half up to a multiple of `step_minor`.

        No other function rounds money.
        """
        steps = Decimal(self.minor) * numerator / (denominator * step_minor)
        return type(self)(self.currency, int(steps.quantize(_ONE, ROUND_HALF_UP)) * step_minor)

    def __add__(self, other: Self) -> Self:
        assert self.currency == other.currency
        return type(self)(self.currency, self.minor + other.minor)

    def __sub__(self, other: Self) -> Self:
        assert self.currency == other.currency
        return type(self)(self.currency, self.minor - other.minor)

    def __str__(self) -> str:
        """Formats money as `₦1,234,567.50`, always with all decimals of the currency."""
        symbol = symbol_of(self.currency)
        gap = "\N{NO-BREAK SPACE}" if symbol[-1].isalpha() else ""
        sign = "-" if self.minor < 0 else ""
        return f"{sign}{symbol}{gap}{abs(self.amount):,f}"


@cache
def symbol_of(currency: str) -> str:
    """Returns the symbol with which Nigerians write the currency, such as `₦`."""
    # Import Babel here, because it loads slowly and most processes format no money at first.
    from babel.numbers import get_currency_symbol

    symbol: str = get_currency_symbol(currency, LOCALE)
    return symbol


def claimed_text(amount: Decimal, currency: str | None) -> str:
    """Formats an amount from a third party, which may have too many decimals or no currency."""
    with suppress(MoneyError):
        return str(Money.of(amount, currency or ""))
    return f"{amount:,f} {currency or ''}".strip()


def amount_of(currency: str, minor: int) -> Decimal:
    """Returns the amount in major units with all decimals of the currency, such as 1000.00."""
    return _UNITS[currency] * minor


def to_minor(amount: Decimal, decimals: int) -> int:
    if not amount.is_finite():
        raise MoneyError("The amount must be a finite number.")
    if not amount.same_quantum(_ONE) and _exponent(amount) < -decimals:
        raise MoneyError(f"The amount may have at most {decimals} decimals.")
    if not amount:
        return 0
    if amount.adjusted() + decimals > 16:
        raise MoneyError("The amount is too large.")
    # The result has at most 17 digits and a Decimal has 28, so no digit is rounded.
    return int(amount.scaleb(decimals))


def _exponent(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    assert isinstance(exponent, int)
    return exponent


def exact_decimal(amount: Decimal | int | str) -> Decimal:
    # Decimal would also accept underscores, surrounding spaces and non-ASCII digits.
    if isinstance(amount, str) and not _AMOUNT.fullmatch(amount):
        raise MoneyError(f"{amount!r} is not an amount.")
    try:
        return Decimal(amount)
    except ArithmeticError:
        raise MoneyError(f"{amount!r} is not an amount.") from None
