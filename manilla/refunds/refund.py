"""A refund and its statuses."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger.posting import CUSTOMER_CREDIT
from manilla.ledger.transactions import Scenario

SEND = JobKind.REFUND
REASON_LENGTH_MAX = 200
# Default reason of a refund, because some providers require a reason.
NO_REASON = "Ordered through the API"


class RefundStatus(StrEnum):
    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"  # the refund was rejected, and its amount is back in the wallet


class Refund(msgspec.Struct, frozen=True):
    merchant_id: int
    trx_id: str
    payment_trx_id: str
    environment: Environment
    currency: str
    amount_minor: int
    reason: str
    status: RefundStatus
    provider: str | None  # None for sandbox refunds
    charge_reference: str | None
    by_operator: bool  # True if an administrator pays the refund and confirms it
    sent_at: datetime | None
    detail: str | None
    created_at: datetime
    on_behalf: bool = False  # True if an administrator created the refund for the merchant
    commission_minor: int = 0  # the part of the amount that the platform bears
    first_sent_at: datetime | None = None
    provider_reference: str | None = None
    ref_trx: str | None = None  # the merchant's reference; None if not created through the API
    scenario: Scenario | None = None
    updated_at: datetime | None = None
    # The part of the amount that is customer credit: a surplus, or a partial payment.
    customer_credit_minor: int = 0
    traceparent: str | None = None  # the trace of the request, or None if tracing was off

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def commission(self) -> Money:
        """The part of the amount that the platform bears."""
        return Money(self.currency, self.commission_minor)

    @property
    def is_open(self) -> bool:
        return self.status is RefundStatus.PENDING

    @property
    def age(self) -> timedelta:
        """The time since the refund was first sent, not counting time on hold."""
        now = datetime.now(UTC)
        first_sent_at = self.first_sent_at or (self.created_at if self.sent_at else None)
        return now - (first_sent_at or now)

    @property
    def may_be_sent(self) -> bool:
        return not self.by_operator

    @property
    def destination(self) -> None:
        """A refund goes back to a charge of its payment."""

    @property
    def case_trx_id(self) -> str:
        return self.payment_trx_id

    @property
    def from_wallet_minor(self) -> int:
        """The part of the amount that the merchant bears."""
        return self.amount_minor - self.commission_minor - self.customer_credit_minor

    @property
    def is_of_customer_credit(self) -> bool:
        return self.customer_credit_minor > 0

    @property
    def source(self) -> str | None:
        """The refund's source in the API, or None if the refund is paid from the wallet."""
        return CUSTOMER_CREDIT if self.is_of_customer_credit else None

    @property
    def payer(self) -> str:
        return self.provider or "sandbox"


def refunded_minor(refunds: Iterable[Refund], status: RefundStatus) -> int:
    """Returns the sum of the refunds with this status, without commission and customer credit."""
    return sum(each.from_wallet_minor for each in refunds if each.status is status)
