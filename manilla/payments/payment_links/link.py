"""A payment link and its status."""

from datetime import datetime
from enum import StrEnum

import msgspec

from manilla.kit import ids
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.ids import TimedIds
from manilla.kit.money import Money

LINK_IDS = TimedIds("PL", 1_000, 9)

PATH = "/pay"
SLUG_RANDOM_CHARACTERS = 9


def new_slug(merchant_id: int) -> str:
    """Returns a short URL part: the merchant's number and 45 random bits, as in `1f-3k9wq0c7h`.

    With the merchant's number, the random part must be unique only within one merchant. If there
    are several databases, the number also tells which one has the link.
    """
    owner = ids.base32(merchant_id, ids.OWNER_CHARACTERS).lstrip("0")
    return f"{owner}-{ids.random_base32(SLUG_RANDOM_CHARACTERS)}".lower()


def owner_of_slug(slug: str) -> int | None:
    """Returns the merchant's number from a slug, or None if the text is not a slug."""
    owner, dash, rest = slug.upper().partition("-")
    is_slug = dash and 0 < len(owner) <= ids.OWNER_CHARACTERS and ids.number(rest) is not None
    return ids.number(owner) if is_slug and len(rest) == SLUG_RANDOM_CHARACTERS else None


class LinkStatus(StrEnum):
    ACTIVE = "active"
    DISABLED = "disabled"
    EXPIRED = "expired"
    USED = "used"  # a single-payment link that was paid


class LinkNotFound(Refusal):
    """The link is unknown, or the caller may not see it. The error does not reveal which."""

    status, code = 404, "PAYMENT_LINK_NOT_FOUND"
    message = "There is no such payment link."


class LinkUsed(Refusal):
    status, code = 409, "PAYMENT_LINK_USED"
    message = "This link was for a single payment, which was made. Create another link."


class LinkTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a payment link that the merchant sets."""

    title: str
    currency: str
    amount_minor: int | None = None  # None if the customer enters the amount
    description: str | None = None
    expires_at: datetime | None = None
    single_use: bool = False
    success_redirect: str | None = None
    customer_reference: str | None = None  # whose account numbers the page shows
    split: str | None = None  # how the payments are divided, as JSON

    @property
    def amount(self) -> Money | None:
        return None if self.amount_minor is None else Money(self.currency, self.amount_minor)


class StoredLink(LinkTerms, frozen=True, kw_only=True):
    """The database columns of a payment link."""

    merchant_id: int
    id: str
    slug: str | None  # None for links created before slugs existed
    environment: Environment
    paid_count: int
    paid_minor: int
    created_at: datetime


class PaymentLink(StoredLink, frozen=True, kw_only=True):
    status: LinkStatus  # computed from the other columns and the current time

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX

    @property
    def earned(self) -> Money:
        """The sum of the successful payments' amounts, without refunds and commissions."""
        return Money(self.currency, self.paid_minor)

    @property
    def path(self) -> str:
        return f"{PATH}/{self.slug or self.id}"

    @property
    def reference_prefix(self) -> str:
        """The prefix of the payments' references, which is the random part of the link's id."""
        return f"LINK-{self.id[-13:]}-"
