"""The parts of a provider's contract, and the validation of requests."""

import hmac
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from manilla.kit.money import Money, MoneyError
from manilla_simulator.banks import Banks
from manilla_simulator.fees import Fees
from manilla_simulator.settings import SimulatorSettings
from manilla_simulator.state import CURRENCY, Charge, Refund, Transfer

_REFERENCE = re.compile(r"[A-Za-z0-9_.=-]{1,100}")
_AMOUNT_TEXT = re.compile(r"\d{1,15}(\.\d{1,2})?")
_ADDRESS = re.compile(r"https?://[^\s\"<>\\^`{|}]+")
_TEXT_MAX = 500


class Denial(msgspec.Struct, frozen=True):
    """A provider's error answer: HTTP status and message."""

    status: int
    message: str


class Refused(Exception):
    def __init__(self, denial: Denial) -> None:
        super().__init__(denial.message)
        self.denial = denial


class Denials(msgspec.Struct, frozen=True):
    """One provider's wording of the errors that all three have, and of its own further ones."""

    duplicate: Denial
    insufficient: Denial
    unresolvable: Denial
    unknown_bank: Denial
    not_found: Denial
    others: tuple[Denial, ...] = ()

    def documented(self) -> list[Denial]:
        """Each error once: C uses one message for an unknown bank and an unknown account."""
        named = (self.insufficient, self.unresolvable, self.unknown_bank, self.duplicate)
        return list(dict.fromkeys((*named, self.not_found, *self.others)))


class Notice(msgspec.Struct, frozen=True):
    """A webhook's content, before it is signed."""

    event: str
    reference: str
    body: dict[str, Any] | msgspec.Raw
    url: str | None = None  # None: the platform's webhook URL for this provider


class Answer(msgspec.Struct, frozen=True):
    data: Any
    message: str


class Fields:
    """A body's fields, read one by one; the first invalid one rejects the request."""

    def __init__(self, values: Any, name: str = "") -> None:
        if not isinstance(values, dict):
            raise _invalid(f"{name or 'The body'} must be an object")
        self._values: dict[str, Any] = values
        self._prefix = f"{name}." if name else ""

    def text(self, name: str) -> str:
        value = self._values.get(name)
        if not isinstance(value, str) or not value.strip():
            raise _invalid(f"{self._prefix}{name} is required")
        if len(value) > _TEXT_MAX:
            raise _invalid(f"{self._prefix}{name} is too long")
        return value

    def optional_text(self, name: str) -> str:
        return self.text(name) if self._values.get(name) else ""

    def digits(self, name: str, count: int) -> str:
        value = self.text(name)
        if len(value) != count or not value.isascii() or not value.isdigit():
            raise _invalid(f"{self._prefix}{name} must be {count} digits")
        return value

    def reference(self, name: str = "reference") -> str:
        value = self.text(name)
        if not _REFERENCE.fullmatch(value):
            raise _invalid(f"{self._prefix}{name} is not a valid reference")
        return value

    def address(self, name: str) -> str | None:
        """Only http and https URLs: customers and webhooks are sent there."""
        if not self._values.get(name):
            return None
        value = self.text(name)
        if not _ADDRESS.fullmatch(value):
            raise _invalid(f"{self._prefix}{name} must be an http or https address")
        return value

    def currency(self, name: str = "currency") -> None:
        if self.text(name) != CURRENCY:
            raise _invalid(f"{self._prefix}{name} must be {CURRENCY}")

    def amount(self, name: str = "amount") -> Money:
        """A JSON number in major units."""
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _invalid(f"{self._prefix}{name} must be a number")
        return self._positive(name, value)

    def amount_text(self, name: str = "amount") -> Money:
        """A string in major units, as B's contract has it."""
        value = self._values.get(name)
        if not isinstance(value, str) or not _AMOUNT_TEXT.fullmatch(value):
            raise _invalid(f"{self._prefix}{name} must be a string such as 1000.00")
        return self._positive(name, value)

    def _positive(self, name: str, value: Decimal | int | str) -> Money:
        try:
            money = Money.of(value, CURRENCY)
        except MoneyError as error:
            raise _invalid(str(error)) from None
        if money.minor <= 0:
            raise _invalid(f"{self._prefix}{name} must be more than 0")
        return money

    def group(self, name: str) -> "Fields":
        return Fields(self._values.get(name), self._prefix + name)

    def texts(self, name: str) -> list[str]:
        value = self._values.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise _invalid(f"{self._prefix}{name} must be a list of strings")
        return list(dict.fromkeys(value))


class Ask(msgspec.Struct, frozen=True):
    """A request that has passed authentication."""

    parameters: Mapping[str, str]
    query: Mapping[str, str]
    fields: Fields

    def query_text(self, name: str) -> str:
        value = self.query.get(name, "")
        if not value:
            raise _invalid(f"{name} is required")
        return value


class Call(msgspec.Struct, frozen=True):
    name: str  # the name that faults use
    method: str
    path: str
    # Takes the Provider and the Ask. A Provider has a Wire and a Wire has Calls, so naming the type
    # here would make the modules import each other.
    answer: Callable[[Any, Ask], Answer]


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's contract: everything that differs between the three."""

    key: str  # `a`: its path prefix in the simulator
    name: str  # `providera`: its name on the platform
    title: str
    banks: Banks
    fees: Fees
    denials: Denials
    calls: tuple[Call, ...]
    wrap: Callable[[bool, str, Any], dict[str, Any]]
    is_authentic: Callable[[SimulatorSettings, Mapping[str, str]], bool]
    signature_header: str
    digest: str
    webhook_secret: Callable[[SimulatorSettings], str]
    charge_notice: Callable[[Charge], Notice | None]
    transfer_notice: Callable[[Transfer], Notice | None]
    refund_notice: Callable[[Refund], Notice | None]
    return_query: Callable[
        [Charge, bool], dict[str, str]
    ]  # takes the charge and whether it was canceled


def is_same(given: str, expected: str) -> bool:
    """Compares in constant time, also if a header contains bytes that are not text."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def _invalid(message: str) -> Refused:
    return Refused(Denial(400, message))
