"""A saved way to pay: a card or a mandate that the merchant can charge without the customer."""

from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit.clock import LAGOS
from manilla.kit.crypto import SealedColumn
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant


class WayKind(StrEnum):
    CARD = "card"
    MANDATE = "mandate"


class WayStatus(StrEnum):
    PENDING = "pending"  # a card: the customer has not paid yet; a mandate: not confirmed yet
    ACTIVE = "active"
    SUSPENDED = "suspended"  # the customer's bank accepts no debits now
    REVOKED = "revoked"  # by the customer or the merchant
    EXPIRED = "expired"
    UNUSABLE = "unusable"  # the provider or the bank rejects it for good
    FAILED = "failed"  # the mandate was never confirmed


class WayEvent(StrEnum):
    ACTIVATED = "activated"
    SUSPENDED = "suspended"
    REVOKED = "revoked"
    EXPIRED = "expired"
    REJECTED = "rejected"
    FAILED = "failed"


_USED = (WayStatus.ACTIVE, WayStatus.SUSPENDED)
# Unlisted transitions change nothing. A way that has ended never becomes usable again.
NEXT: dict[tuple[WayStatus, WayEvent], WayStatus] = {
    (WayStatus.PENDING, WayEvent.ACTIVATED): WayStatus.ACTIVE,
    (WayStatus.PENDING, WayEvent.SUSPENDED): WayStatus.SUSPENDED,
    (WayStatus.PENDING, WayEvent.REVOKED): WayStatus.REVOKED,
    (WayStatus.PENDING, WayEvent.EXPIRED): WayStatus.FAILED,
    (WayStatus.PENDING, WayEvent.FAILED): WayStatus.FAILED,
    (WayStatus.ACTIVE, WayEvent.SUSPENDED): WayStatus.SUSPENDED,
    (WayStatus.SUSPENDED, WayEvent.ACTIVATED): WayStatus.ACTIVE,
    **{(used, WayEvent.REVOKED): WayStatus.REVOKED for used in _USED},
    **{(used, WayEvent.EXPIRED): WayStatus.EXPIRED for used in _USED},
    **{(used, WayEvent.REJECTED): WayStatus.UNUSABLE for used in _USED},
    **{(used, WayEvent.FAILED): WayStatus.UNUSABLE for used in _USED},
}
OPEN = (WayStatus.PENDING, *_USED)


class EndedBy(StrEnum):
    CUSTOMER = "customer"
    MERCHANT = "merchant"
    ERASURE = "erasure"  # the customer's personal data was erased
    PROVIDER = "provider"


class WayNotFound(Refusal):
    status, code = 404, "WAY_NOT_FOUND"
    message = "The customer has no such saved way to pay."


class WayUnusable(Refusal):
    code = "way_unusable"
    message = "This way to pay cannot be charged. Ask the customer to pay on checkout again."


class RetryLimit(Refusal):
    code = "retry_limit"
    message = "This way to pay was declined too often. Charge it again later."


class MandateRefused(Refusal):
    code = "way_unusable"
    message = "The mandate was not created."


class SavedWay(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    id: str
    environment: Environment
    customer_reference: str
    kind: WayKind
    status: WayStatus
    provider: str  # the account that has the token. No other account can use it.
    currency: str
    label: str
    email: str  # with which the provider saved it
    consent_text: str  # what the customer approved
    consented_at: datetime | None  # None until the customer confirms the mandate
    created_at: datetime
    updated_at: datetime
    token_sealed: bytes | None = None
    payment_trx_id: str | None = None  # the payment that saved the card
    expires_on: date | None = None
    amount_minor: int | None = None  # the most that all debits of a mandate can take
    action_url: str | None = None  # where the customer confirms a mandate
    ended_by: EndedBy | None = None
    reason: str = ""

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.merchant_id, self.environment)

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX

    @property
    def amount(self) -> Money | None:
        return None if self.amount_minor is None else Money(self.currency, self.amount_minor)

    @property
    def is_expired(self) -> bool:
        return self.expires_on is not None and self.expires_on < datetime.now(LAGOS).date()

    @property
    def obstacle(self) -> str | None:
        """Returns why the way cannot be charged now, as a decline's reason, or None."""
        if self.status is WayStatus.REVOKED:
            return "revoked"
        if self.status is WayStatus.EXPIRED or self.is_expired:
            return "expired card" if self.kind is WayKind.CARD else "mandate has expired"
        return None if self.status is WayStatus.ACTIVE else f"way is {self.status}"

    @property
    def context(self) -> str:
        return context(self.merchant_id, self.id)


def context(merchant_id: int, way_id: str) -> str:
    """Returns the associated data that binds an encrypted token to its row."""
    return f"saved_way:{merchant_id}:{way_id}"


def _context_of(row: Any) -> str:
    return context(row["merchant_id"], row["id"])


SEALED = SealedColumn("saved_way", "token_sealed", ("merchant_id", "id"), _context_of)


def next_status(way: SavedWay, event: WayEvent) -> WayStatus | None:
    return NEXT.get((way.status, event))


def moment_before(days: int) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)
