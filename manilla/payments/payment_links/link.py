"""A payment link and its status."""

from datetime import datetime
from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.ids import TimedIds
from manilla.kit.money import Money

LINK_IDS = TimedIds("PL", 1_000, 9)

PATH = "/pay"


class LinkStatus(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"
    EXPIRED = "expired"
    USED = "used"  # a link for a single payment, which succeeded


class LinkNotFound(Refusal):
    """The id is unknown, or the caller may not see the link. Both give the same error."""

    status, code = 404, "PAYMENT_LINK_NOT_FOUND"
    message = "There is no such payment link."


class LinkTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What the merchant decides about a link."""

    title: str
    currency: str
    amount_minor: int | None = None  # None: the customer enters the amount
    description: str | None = None
    expires_at: datetime | None = None
    single_use: bool = False
    success_redirect: str | None = None

    @property
    def amount(self) -> Money | None:
        return None if self.amount_minor is None else Money(self.currency, self.amount_minor)


class StoredLink(LinkTerms, frozen=True, kw_only=True):
    """The columns of a link."""

    merchant_id: int
    id: str
    environment: Environment
    paid_count: int
    paid_minor: int
    created_at: datetime


class PaymentLink(StoredLink, frozen=True, kw_only=True):
    status: LinkStatus  # follows from the columns and the time

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX

    @property
    def earned(self) -> Money:
        """The sum of the successful payments' amounts, without refunds and commissions."""
        return Money(self.currency, self.paid_minor)

    @property
    def path(self) -> str:
        return f"{PATH}/{self.id}"

    @property
    def reference_prefix(self) -> str:
        """The start of the references of the link's payments: the random part of the link's id."""
        return f"LINK-{self.id[-13:]}-"
