"""Computes a method's fee: a fixed part and a percentage, with optional minimum and maximum."""

from decimal import Decimal

import msgspec

from manilla.kit.money import Money


class Fee(msgspec.Struct, frozen=True):
    fixed_minor: int = 0
    percent: Decimal = Decimal(0)
    minimum_minor: int | None = None
    maximum_minor: int | None = None

    def of(self, amount: Money) -> Money:
        minor = self.fixed_minor + amount.percent(self.percent).minor
        if self.minimum_minor is not None:
            minor = max(minor, self.minimum_minor)
        if self.maximum_minor is not None:
            minor = min(minor, self.maximum_minor)
        return Money(amount.currency, minor)
