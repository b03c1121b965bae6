"""A deposit or withdrawal method."""

from enum import StrEnum

import msgspec

from manilla.kit.money import Money
from manilla.kit.price import Price, PriceTerms
from manilla.providers.port import Direction

AUTO = "auto"  # means that a provider is chosen for each payout


class MethodKind(StrEnum):
    DEPOSIT = "deposit"
    WITHDRAW = "withdraw"


class Flow(StrEnum):
    """How a customer pays with a deposit method."""

    HOSTED = "hosted"  # the customer pays on the provider's own page
    # The customer pays by bank transfer to an account created for this payment.
    VIRTUAL_ACCOUNT = "virtual_account"


class Method(msgspec.Struct, frozen=True):
    kind: MethodKind
    id: int
    code: str
    name: str
    # None if an administrator processes the payouts. AUTO if a provider is chosen for each payout.
    provider: str | None
    flow: Flow | None  # None for withdrawal methods
    currency: str
    active: bool
    position: int
    min_minor: int
    max_minor: int | None
    fee: PriceTerms

    def price(self, amount: Money) -> Price:
        return Price(amount, self.fee.of(amount))

    @property
    def is_manual(self) -> bool:
        return self.provider is None

    @property
    def is_auto(self) -> bool:
        """Whether a provider is chosen for each payout."""
        return self.provider == AUTO

    @property
    def is_rail(self) -> bool:
        """Whether the method always uses the same provider."""
        return self.provider not in (None, AUTO)

    @property
    def direction(self) -> Direction:
        return Direction.PAY_IN if self.kind is MethodKind.DEPOSIT else Direction.PAY_OUT

    @property
    def minimum(self) -> Money:
        """The smallest allowed amount.

        This is at least one minor unit, because zero cannot be paid.
        """
        return Money(self.currency, self._least_minor)

    @property
    def _least_minor(self) -> int:
        return max(self.min_minor, 1)

    @property
    def maximum(self) -> Money | None:
        return None if self.max_minor is None else Money(self.currency, self.max_minor)

    def takes(self, amount: Money) -> bool:
        assert amount.currency == self.currency
        minor = amount.minor
        return minor >= self._least_minor and (self.max_minor is None or minor <= self.max_minor)
