"""An audit log entry, and the hash that links it to the previous entry."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from manilla.audit.actor import Actor, ActorKind
from manilla.kit.clock import iso
from manilla.kit.money import Money

GENESIS = bytes(32)  # the first entry has no predecessor, so this is its previous hash


class AuditEntry(msgspec.Struct, frozen=True):
    id: int
    at: datetime
    actor_kind: str
    actor_id: int | None
    actor_name: str
    actor_realm: str | None
    action: str
    subject: str
    merchant_id: int | None
    detail: dict[str, Any]
    previous_hash: bytes
    hash: bytes

    @property
    def actor(self) -> Actor:
        return Actor(ActorKind(self.actor_kind), self.actor_id, self.actor_name, self.actor_realm)

    @property
    def computed_hash(self) -> bytes:
        """The SHA-256 of all fields in canonical form: a JSON array with sorted keys."""
        said = [
            *(self.id, iso(self.at)),
            *(self.actor_kind, self.actor_id, self.actor_name, self.actor_realm),
            *(self.action, self.subject, self.merchant_id, self.detail, self.previous_hash.hex()),
        ]
        return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).digest()


def plain(value: Any) -> Any:
    """Converts a value to the form in which the database returns it from JSON.

    A value with several JSON forms, such as a Decimal, becomes text, so that its hash is stable.
    """
    match value:
        case None | bool() | int():
            return value
        case Mapping():
            return {str(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
        case msgspec.Struct() if not isinstance(value, Money):
            return plain(msgspec.structs.asdict(value))
    return _text(value)


def _text(value: Any) -> str:
    match value:
        case str():
            return str(value)
        case Decimal():
            # Remove trailing zeros that the database column adds: 1.5 instead of 1.5000.
            digits = f"{value:f}"
            return digits.rstrip("0").rstrip(".") if "." in digits else digits
        case Money():
            return f"{value.amount:f} {value.currency}"
        case datetime():
            return iso(value)
    raise TypeError(f"{type(value).__name__} has no canonical form for the log.")
