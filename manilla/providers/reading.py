"""Parses providers' responses without rounding. Rejects everything that is not documented.

Also verifies the signatures of providers' webhooks. All comparisons take constant time.
"""

import hmac
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, TypeVar

from manilla.kit import strict_json
from manilla.kit.http import is_web_address
from manilla.kit.money import DECIMALS, Money, MoneyError, exact_decimal
from manilla.providers.port import Bank, Claim, Headers, ResolvedAccount, Unreadable, Webhook

Status = TypeVar("Status")

TEXT_LENGTH_MAX = 200
AMOUNT_DIGITS_MAX = 28  # the maximum number of digits of a Decimal without rounding
YEARS = range(2000, 2200)  # of a time that a provider means

_OUR_REFERENCE = re.compile(r"\bTXN[0-9A-HJKMNP-TV-Z]{30}(-[0-9]+)?(?![0-9A-Z])", re.IGNORECASE)


class Malformed(Exception):
    """The response does not match the provider's documentation. The message names the field."""


def plain(text: str) -> str:
    """Replaces unprintable characters in a provider's text with spaces and limits its length."""
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    return text[:TEXT_LENGTH_MAX].strip()


def our_reference(text: str) -> str | None:
    """Returns the first reference of ours in a provider's text, or None."""
    found = _OUR_REFERENCE.search(text)
    return found[0].upper() if found else None


def field(data: Any, name: str) -> Any:
    if not isinstance(data, dict) or data.get(name) is None:
        raise Malformed(f"{name} is missing")
    return data[name]


def text(data: Any, name: str) -> str:
    value = field(data, name)
    if not isinstance(value, str) or not value:
        raise Malformed(f"{name} is not text")
    return plain(value)


def text_or_number(data: Any, name: str) -> str:
    value = field(data, name)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Malformed(f"{name} is not text")
    return plain(str(value))


def id_number(data: Any, name: str) -> str:
    """Parses a provider's numeric id. Only digits are accepted, because the id is used in URLs."""
    value = text_or_number(data, name)
    if not (value.isascii() and value.isdigit()):
        raise Malformed(f"{name} is not a number")
    return value


def optional_text(data: Any, name: str) -> str:
    value = data.get(name) if isinstance(data, dict) else None
    return plain(value) if isinstance(value, str) else ""


def amount(data: Any, name: str) -> str | int | Decimal:
    """Parses an amount from a number or text, without converting it to a float."""
    value = field(data, name)
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise Malformed(f"{name} is not an amount")
    return value


def money(data: Any, name: str, currency: str) -> Money:
    value = amount(data, name)
    try:
        exact = exact_decimal(value)
        if len(exact.as_tuple().digits) > AMOUNT_DIGITS_MAX:
            raise Malformed(f"{name} has too many digits")
        # Trailing zeros are accepted: 10.500 is the same exact amount as 10.5.
        return Money.of(exact.normalize(), currency)
    except MoneyError as error:
        raise Malformed(f"{name} is not an amount in {currency}") from error


def unsigned_money(data: Any, name: str, currency: str) -> Money:
    value = money(data, name, currency)
    if value.minor < 0:
        raise Malformed(f"{name} is negative")
    return value


def optional_money(data: Any, name: str, currency: str) -> Money | None:
    return None if data.get(name) is None else money(data, name, currency)


def fee(data: Any, name: str, currency: str) -> Money | None:
    """Parses a fee and rounds it to minor units, because providers may use more decimals.

    Returns None if the fee is invalid, because an invalid fee must not keep a transaction open.
    """
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    try:
        exact = exact_decimal(value)
        if not exact.is_finite() or exact < 0 or exact.adjusted() > 16:
            return None
        unit = Decimal(1).scaleb(-DECIMALS[currency])
        return Money.of(exact.quantize(unit, ROUND_HALF_UP), currency)
    except (MoneyError, ArithmeticError):
        return None


def kobo(data: Any, name: str, currency: str) -> Money:
    """Parses an amount in whole minor units, from a number or text."""
    value = field(data, name)
    if (isinstance(value, str) and value.isascii() and value.isdigit()) or (
        isinstance(value, Decimal) and value == value.to_integral_value()
    ):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**18:
        raise Malformed(f"{name} is not a whole number of minor units")
    return Money(currency, value)


def signed_kobo(data: Any, name: str, currency: str) -> Money:
    """Parses an amount in whole minor units, which may be negative."""
    value = field(data, name)
    if isinstance(value, str) and value.startswith("-"):
        return Money(currency, -kobo({name: value[1:]}, name, currency).minor)
    if isinstance(value, int | Decimal) and value < 0:
        return Money(currency, -kobo({name: -value}, name, currency).minor)
    return kobo(data, name, currency)


def optional_kobo(data: Any, name: str, currency: str) -> Money | None:
    return None if data.get(name) is None else kobo(data, name, currency)


def optional_id(data: Any, name: str) -> str | None:
    """Parses a provider's id, which is text or a number. Returns None if it is missing."""
    return None if data.get(name) is None else text_or_number(data, name)


def read_claim(data: Any, *, in_minor_units: bool = False) -> Claim | None:
    """Returns a webhook's amount, in major units, and its currency.

    A value that cannot be parsed never equals the expected value.
    """
    if not isinstance(data, dict):
        return None
    amount, code = data.get("amount"), data.get("currency")
    if amount is None and code is None:
        return None
    currency_ = None if code is None else plain(str(code)) or "?"
    if amount is None:
        return Claim(None, currency_)
    decimals = DECIMALS.get(currency_ or "NGN", 0) if in_minor_units else 0
    return Claim(_claimed_amount(amount).scaleb(-decimals), currency_)


def _claimed_amount(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return Decimal("NaN")
    try:
        amount = exact_decimal(value)
    except MoneyError:
        return Decimal("NaN")
    is_storable = len(f"{amount:e}") <= AMOUNT_DIGITS_MAX and abs(amount.adjusted()) < 20
    return amount if is_storable else Decimal("NaN")


def same_reference(data: Any, name: str, expected: str) -> None:
    """Rejects a response about a different reference."""
    if field(data, name) != expected:
        raise Malformed(f"{name} belongs to another transaction")


def items(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise Malformed("not a list")
    return data


def one_of(statuses: Mapping[str, Status], data: Any, name: str) -> Status:
    """Maps a provider's status to ours. Rejects undocumented statuses."""
    value = field(data, name)
    if not isinstance(value, str) or value not in statuses:
        raise Malformed(f"{name} is not in the contract")
    return statuses[value]


def currency(data: Any, name: str) -> str:
    value = field(data, name)
    if value not in DECIMALS:
        raise Malformed(f"{name} is not a currency")
    code: str = value
    return code


def moment(data: Any, name: str) -> datetime | None:
    """Parses a UTC time, or returns None if it is missing."""
    given = optional_text(data, name)
    if not given:
        return None
    try:
        parsed = datetime.fromisoformat(given)
    except ValueError:
        raise Malformed(f"{name} is not a time") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def readable_moment(data: Any, name: str, zone: tzinfo = UTC) -> datetime | None:
    """Parses a time, which is in `zone` unless it contains a time zone.

    Returns None if the time cannot be parsed or is a placeholder, such as the year 1, because it
    must not hide the rest.
    """
    try:
        parsed = datetime.fromisoformat(optional_text(data, name))
    except ValueError:
        return None
    if parsed.year not in YEARS:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)


def required_moment(data: Any, name: str) -> datetime:
    """Parses a timestamp, which is in UTC unless it contains a time zone."""
    given = moment(data, name)
    if given is None:
        raise Malformed(f"{name} is missing")
    return given


def web_address(data: Any, name: str) -> str:
    """Parses the URL of the page that the customer is redirected to. It must be an http(s) URL."""
    value = field(data, name)
    if not isinstance(value, str) or not is_web_address(value):
        raise Malformed(f"{name} is not a URL")
    return value


def banks(data: Any) -> list[Bank]:
    return [Bank(text(bank, "code"), text(bank, "name")) for bank in items(data)]


def read_account(data: Any) -> ResolvedAccount:
    return ResolvedAccount(text(data, "account_name"))


def webhook(raw: bytes, read: Callable[[Any], Webhook]) -> Webhook:
    """Parses a webhook with a valid signature. `read` converts its document or raises Malformed."""
    try:
        return read(strict_json.decode(raw))
    except (strict_json.JsonError, Malformed) as error:
        return Unreadable(str(error))


def is_hex_hmac(
    headers: Headers, name: bytes, secret: bytes, signed: bytes, digest: str = "sha256"
) -> bool:
    """Returns True if the header is the hex HMAC of the body or of its signed part."""
    given = _given(headers, name)
    expected = hmac.digest(secret, signed, digest).hex().encode()
    return bool(secret) and given is not None and hmac.compare_digest(expected, given.lower())


def is_shared_secret(headers: Headers, name: bytes, secret: bytes) -> bool:
    """Returns True if the header equals the shared secret. The body is not signed."""
    given = _given(headers, name)
    return bool(secret) and given is not None and hmac.compare_digest(secret, given)


def _given(headers: Headers, name: bytes) -> bytes | None:
    """Returns the header's value, or None if the header is missing or repeated."""
    given = headers.get(name, ())
    return given[0] if len(given) == 1 else None
