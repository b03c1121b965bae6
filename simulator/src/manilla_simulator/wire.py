"""The parts of a provider's API contract, and the validation of requests."""

import hmac
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

import msgspec

from manilla.kit.money import MINOR_MAX, Money, MoneyError
from manilla_simulator.banks import Banks
from manilla_simulator.fees import Fees
from manilla_simulator.files import SentFile
from manilla_simulator.settings import Account, SimulatorSettings
from manilla_simulator.signatures import Signer
from manilla_simulator.state import (
    CURRENCY,
    Charge,
    ChargeStatus,
    Dispute,
    DisputeStatus,
    Mandate,
    Refund,
    RefundStatus,
    Transfer,
    TransferStatus,
)

_REFERENCE = re.compile(r"[A-Za-z0-9_.=-]{1,100}")
_KOBO_TEXT = re.compile(r"\d{1,17}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_AMOUNT_TEXT = re.compile(r"\d{1,15}(\.\d{1,2})?")
_ADDRESS = re.compile(r"https?://[^\s\"<>\\^`{|}]+")
_TEXT_MAX = 500


class Denial(msgspec.Struct, frozen=True):
    """A provider's error response."""

    status: int
    message: str
    code: str = ""  # the provider's own error code, or an empty string
    field: str = ""  # the name of the invalid request field


class Refused(Exception):
    def __init__(self, denial: Denial) -> None:
        super().__init__(denial.message)
        self.denial = denial


class Denials(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's error responses: a field for each common error, and `others` for the rest."""

    insufficient: Denial
    unresolvable: Denial
    unknown_bank: Denial
    duplicate: Denial
    not_found: Denial
    # If one of these errors is None, the provider returns the same error as for transfers.
    duplicate_charge: Denial | None = None
    duplicate_refund: Denial | None = None
    charge_not_found: Denial | None = None
    refund_not_found: Denial | None = None
    refund_insufficient: Denial | None = None
    # An error is None if the provider does not document it. The simulator then uses its own error.
    refund_not_paid: Denial | None = None
    refund_too_much: Denial | None = None
    # None if the provider's API has no disputes.
    dispute_not_found: Denial | None = None
    dispute_closed: Denial | None = None
    others: tuple[Denial, ...] = ()

    def documented(self) -> list[Denial]:
        """Returns each documented error once. A provider may use one error in two cases."""
        named = [getattr(self, name) for name in self.__struct_fields__ if name != "others"]
        return list(dict.fromkeys(each for each in (*named, *self.others) if each is not None))


class Notice(msgspec.Struct, frozen=True):
    """The content of a webhook before signing."""

    event: str
    reference: str
    body: dict[str, Any] | msgspec.Raw
    # If None, the webhook is sent to the platform's webhook URL for this provider.
    url: str | None = None


class Answer(msgspec.Struct, frozen=True):
    data: Any
    message: str
    status: int = 200
    more: Mapping[str, Any] = {}  # additional fields of the response envelope, next to `data`


class Fields:
    """Validates the fields of a request body. The first invalid field raises an error."""

    def __init__(self, values: Any, name: str = "") -> None:
        if not isinstance(values, dict):
            raise invalid(f"{name or 'The body'} must be an object", name)
        self._values: dict[str, Any] = values
        self._prefix = f"{name}." if name else ""

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def names(self) -> list[str]:
        return list(self._values)

    def only(self, *names: str) -> Self:
        """Rejects a body that has other fields, so that a misspelled optional field is detected."""
        for name in self._values:
            if name not in names:
                raise self._invalid(name, "is not allowed")
        return self

    def text(self, name: str, *, least: int = 1, most: int = _TEXT_MAX) -> str:
        value = self._values.get(name)
        if not isinstance(value, str) or not value.strip():
            raise self._invalid(name, "is required")
        if len(value) < least:
            raise self._invalid(name, f"must be at least {least} characters long")
        if len(value) > most:
            raise self._invalid(name, "is too long")
        return value

    def optional_text(self, name: str, *, most: int = _TEXT_MAX) -> str:
        return self.text(name, most=most) if self._values.get(name) else ""

    def email(self, name: str) -> str:
        value = self.text(name)
        if not _EMAIL.fullmatch(value):
            raise self._invalid(name, "must be a valid email")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._values.get(name, default)
        if not isinstance(value, bool):
            raise self._invalid(name, "must be a boolean")
        return value

    def digits(self, name: str, count: int) -> str:
        value = self.text(name)
        if len(value) != count or not value.isascii() or not value.isdigit():
            raise self._invalid(name, f"must be {count} digits")
        return value

    def whole_number(self, name: str, *, most: int) -> int:
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self._invalid(name, f"must be a whole number from 1 to {most}")
        return value

    def reference(self, name: str = "reference", *, least: int = 1, most: int = 100) -> str:
        value = self.text(name, least=least, most=most)
        if not _REFERENCE.fullmatch(value):
            raise self._invalid(name, "is not a valid reference")
        return value

    def address(self, name: str) -> str | None:
        """Returns the field's value, which must be an http or https URL."""
        if not self._values.get(name):
            return None
        value = self.text(name)
        if not _ADDRESS.fullmatch(value):
            raise self._invalid(name, "must be an http or https address")
        return value

    def currency(self, name: str = "currency") -> None:
        if self.text(name) != CURRENCY:
            raise self._invalid(name, f"must be {CURRENCY}")

    def amount(self, name: str = "amount") -> Money:
        """Parses an amount in major units from a JSON number."""
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self._invalid(name, "must be a number")
        return self._positive(name, value)

    def amount_text(self, name: str = "amount") -> Money:
        """Parses an amount in major units from a string, as provider B's contract requires."""
        value = self._values.get(name)
        if not isinstance(value, str) or not _AMOUNT_TEXT.fullmatch(value):
            raise self._invalid(name, "must be a string such as 1000.00")
        return self._positive(name, value)

    def amount_of_any_type(self, name: str = "amount") -> Money:
        is_text = isinstance(self._values.get(name), str)
        return self.amount_text(name) if is_text else self.amount(name)

    def kobo(self, name: str = "amount") -> Money | None:
        """Parses a positive amount in kobo from an integer or a string. Otherwise returns None."""
        value: Any = self._values.get(name)
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer and not (isinstance(value, str) and _KOBO_TEXT.fullmatch(value)):
            return None
        return Money(CURRENCY, int(value)) if 0 < int(value) <= MINOR_MAX else None

    def _positive(self, name: str, value: Decimal | int | str) -> Money:
        try:
            money = Money.of(value, CURRENCY)
        except MoneyError as error:
            raise invalid(str(error), self._prefix + name) from None
        if money.minor <= 0:
            raise self._invalid(name, "must be more than 0")
        return money

    def group(self, name: str) -> "Fields":
        return Fields(self._values.get(name), self._prefix + name)

    def texts(self, name: str) -> list[str]:
        value = self._values.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            raise self._invalid(name, "must be a list of strings")
        return list(dict.fromkeys(value))

    def _invalid(self, name: str, problem: str) -> Refused:
        return invalid(f"{self._prefix}{name} {problem}", self._prefix + name)


class Ask(msgspec.Struct, frozen=True):
    """An authenticated request to a provider."""

    parameters: Mapping[str, str]
    query: Mapping[str, str]
    fields: Fields
    headers: Mapping[str, str]
    file: SentFile | None = None  # only for calls that take a file

    def query_text(self, name: str) -> str:
        value = self.query.get(name, "")
        if not value:
            raise invalid(f"{name} is required", name)
        return value

    def page(self, size: str, most: int) -> tuple[int, int]:
        """Returns the page number, starting at 1, and the page size from the parameter `size`."""
        number, count = self.number("page", 1), self.number(size, most)
        return max(1, number), min(max(1, count), most)

    def number(self, name: str, default: int) -> int:
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise invalid(f"{name} must be a number", name)
        return int(text)


class BodyKind(StrEnum):
    JSON = "json"
    FORM = "form"  # a form with one file
    FILE = "file"  # A file store's signed URL takes any bytes, and its response has no body.


class Call(msgspec.Struct, frozen=True):
    name: str  # the name that fault commands use for this call
    method: str
    path: str
    # The first argument is the Provider. Naming its type would cause a circular import.
    answer: Callable[[Any, Ask], Answer]
    is_public: bool = False  # True if the call authenticates the caller itself
    body: BodyKind = BodyKind.JSON


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """One provider's API contract: everything that differs between the providers.

    Functions whose first parameter is `Any` take the Provider.
    """

    key: str  # the provider's path prefix in the simulator, such as `a`
    name: str  # the provider's name on the platform, such as `providera`
    title: str
    account: Callable[[SimulatorSettings], Account]
    # All virtual account numbers of this provider start with this prefix.
    account_prefix: str
    banks: Banks
    fees: Fees
    denials: Denials
    calls: tuple[Call, ...]
    envelope: Callable[[Any, Answer], dict[str, Any]]
    error_envelope: Callable[[Denial], dict[str, Any]]
    authenticate: Callable[[Any, Mapping[str, str]], None]  # raises Refused
    sign: Signer
    # Takes the Account, and returns None if the provider does not sign webhooks.
    webhook_secret: Callable[[Any], str | None]
    charge_notice: Callable[[Any, Charge], Notice | None]
    transfer_notice: Callable[[Any, Transfer], Notice | None]
    refund_notice: Callable[[Any, Refund], Notice | None]
    # Takes the dispute and what happened to it: `create`, `remind` or `resolve`.
    dispute_notice: Callable[[Any, Dispute, str], Notice | None] = lambda *_: None
    mandate_notice: Callable[[Any, Mandate], Notice | None] = lambda *_: None
    # Returns the provider's own id of a dispute with this number.
    dispute_reference: Callable[[int], str] = str
    # True if the provider debits the disputed amount before the dispute is decided.
    holds_disputes: bool = False
    # The name of a dispute's status in the provider's terms, for the dispute's history.
    dispute_word: Callable[[Dispute], str] = lambda dispute: dispute.status
    # Returns the provider's own reference of a transfer into a permanent account.
    transfer_reference: Callable[[int], str] = str
    return_query: Callable[
        [Charge, bool], dict[str, str]
    ]  # Takes the charge, and whether the customer canceled it.
    # Decides whether a virtual account returns a wrong amount. The next field creates the webhook.
    returns_amount: Callable[[Any, Charge, Money], bool] = lambda *_: False
    returned_notice: Callable[[Any, Charge, Money], Notice | None] = lambda *_: None
    # Map the provider's own statuses, which the control API can set, to the simulator's statuses.
    charge_words: Mapping[str, ChargeStatus] = {}
    transfer_words: Mapping[str, TransferStatus] = {}
    refund_words: Mapping[str, RefundStatus] = {}
    dispute_words: Mapping[str, DisputeStatus] = {}
    # Status changes that this provider makes in addition to the changes of all providers.
    transfer_changes: frozenset[tuple[TransferStatus, TransferStatus]] = frozenset()


def returns_every_other_amount(_provider: Any, charge: Charge, paid: Money) -> bool:
    return paid != charge.expected


UNAUTHORIZED = Denial(401, "Unauthorized")


def envelope(_provider: Any, answer: Answer) -> dict[str, Any]:
    """Builds the response envelope that several providers share."""
    return {"status": True, "message": answer.message, "data": answer.data, **answer.more}


def error_envelope(denial: Denial) -> dict[str, Any]:
    return {"status": False, "message": denial.message, "data": None}


def require_bearer(headers: Mapping[str, str], token: str, denial: Denial = UNAUTHORIZED) -> None:
    if not is_same(headers.get("Authorization", ""), f"Bearer {token}"):
        raise Refused(denial)


def is_same(given: str, expected: str) -> bool:
    """Compares two texts in constant time. Also accepts header values with invalid UTF-8."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def invalid(message: str, field: str = "") -> Refused:
    return Refused(Denial(400, message, field=field))
