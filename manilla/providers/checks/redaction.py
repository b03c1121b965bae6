"""Removes credentials and personal data from a report, because they must not leave the system."""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from manilla.kit import strict_json
from manilla.kit.logs import HIDDEN
from manilla.providers.wire import Exchange

TEXT_LENGTH_MAX = 300
ITEMS_MAX = 3
FIELDS_MAX = 60
LEARNED_LENGTH_MIN = 4
LEARNED_MAX = 100  # limit for one document

_SECRET = re.compile(
    "(?i)secret|password|signature|authori[sz]ation|api[-_]?key|token|bvn|cookie|otp|access_?code"
)
_NUMBER = re.compile(
    "(?i)account_?(number|no)$|^(transfer_)?account$|nuban|phone|mobile|msisdn|card|pan$"
)
_PERSON = re.compile("(?i)(^|_|account|customer|holder|beneficiary|first|last|full)name$")
# Matches start only after a separator, so that searching a long text is fast.
_EMAIL = re.compile(r"""(?<![^\s@"'<>:])[^\s@"'<>:]+@[^\s@"'<>]+""")
_LONG_NUMBER = re.compile(r"(?<![\w.])\+?\d{10,}(?!\w)")
_FIGURE = re.compile("(?i)amount|balance|fee|difference|expir|time|^id$")


class Redactor:
    """Hides known secrets wherever they appear in a text.

    The redactor also finds secrets in each call and response, such as tokens and personal names.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._hidden = {secret for secret in secrets if secret}

    def learn(self, exchange: Exchange) -> None:
        for text in exchange.call.headers.values():
            self._hidden |= {text, text.rpartition(" ")[2]}
        for document in (exchange.call.body, exchange.call.query, _decoded(exchange.raw)):
            self._hidden |= set(islice(_secrets_in(document), LEARNED_MAX))

    def text(self, text: str) -> str:
        for known in sorted(self._hidden, key=len, reverse=True):
            text = text.replace(known, HIDDEN)
        return _LONG_NUMBER.sub(lambda found: _last_four(found[0]), _EMAIL.sub(HIDDEN, text))

    def body(self, raw: bytes) -> Any:
        document = _decoded(raw)
        is_json = document is not None or raw.strip() == b"null"
        return self.value(document) if is_json else _short(self.text(raw.decode(errors="replace")))

    def value(self, value: Any, name: str = "") -> Any:
        match value:
            case Mapping():
                return self._fields(value)
            case list():
                shown = [self.value(item, name) for item in value[:ITEMS_MAX]]
                more = len(value) - ITEMS_MAX
                return [*shown, f"… and {more} more"] if more > 0 else shown
            case None | bool():
                return value
        return self._scalar(value, name)

    def _fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        shown = list(fields.items())[:FIELDS_MAX]
        named = "bank_name" if _is_bank(fields) else "name"
        return {
            self.text(name): self.value(value, named if name == "name" else name)
            for name, value in shown
        }

    def _scalar(self, value: Any, name: str) -> Any:
        if _SECRET.search(name) or _is_person(name):
            return HIDDEN
        if _NUMBER.search(name):
            return _last_four(str(value))
        if isinstance(value, str):
            return _short(self.text(value))
        is_figure = _FIGURE.search(name)
        shown = self.text(str(value))
        return value if is_figure or shown == str(value) else shown


def _decoded(raw: bytes) -> Any:
    try:
        return strict_json.decode(raw)
    except strict_json.JsonError:
        return None


def _secrets_in(value: Any, name: str = "") -> Iterable[str]:
    """Yields a document's tokens and personal names, because other texts may repeat them."""
    match value:
        case Mapping():
            named = "bank_name" if _is_bank(value) else "name"
            for key, item in value.items():
                yield from _secrets_in(item, named if key == "name" else key)
        case list():
            for item in value:
                yield from _secrets_in(item, name)
        case str() if len(value) >= LEARNED_LENGTH_MIN:
            if _SECRET.search(name) or _is_person(name):
                yield value


def _is_bank(fields: Mapping[str, Any]) -> bool:
    return "code" in fields or "slug" in fields


def _is_person(name: str) -> bool:
    return bool(_PERSON.search(name)) and "bank" not in name.lower()


def _short(text: str) -> str:
    return text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}…"


def _last_four(text: str) -> str:
    return f"******{text[-4:]}"
