"""What a transaction costs: its amount, what the platform charges for it, and the taxes on that."""

from decimal import Decimal
from enum import StrEnum

import msgspec

from manilla.kit.money import Money


class PartKind(StrEnum):
    PERCENT = "percent"
    FIXED = "fixed"
    WAIVER = "waiver"  # the fixed part that small amounts do not pay; negative
    MINIMUM = "minimum"  # what is missing to the minimum
    CAP = "cap"  # what exceeds the maximum; negative


class PricePart(msgspec.Struct, frozen=True):
    kind: PartKind
    minor: int


class PriceTerms(msgspec.Struct, frozen=True):
    """A percentage and a fixed part, with optional minimum and maximum."""

    fixed_minor: int = 0
    percent: Decimal = Decimal(0)
    minimum_minor: int | None = None
    maximum_minor: int | None = None
    waived_below_minor: int | None = None  # smaller amounts do not pay the fixed part
    step_minor: int = 1  # the percentage is rounded half up to a multiple of this

    def of(self, amount: Money) -> Money:
        return Money(amount.currency, sum(part.minor for part in self.parts(amount)))

    def parts(self, amount: Money) -> tuple[PricePart, ...]:
        """Returns the parts of the price, without those of zero. Their sum is the whole price."""
        percent = amount.percent(self.percent, self.step_minor).minor
        is_waived = self.waived_below_minor is not None and amount.minor < self.waived_below_minor
        waiver = -self.fixed_minor if is_waived else 0
        sum_minor = percent + self.fixed_minor + waiver
        minimum = max(0, (self.minimum_minor or 0) - sum_minor)
        most = sum_minor + minimum if self.maximum_minor is None else self.maximum_minor
        cap = min(0, most - sum_minor - minimum)
        minors = (percent, self.fixed_minor, waiver, minimum, cap)
        return tuple(
            PricePart(kind, minor) for kind, minor in zip(PartKind, minors, strict=True) if minor
        )


class Price(msgspec.Struct, frozen=True):
    amount: Money
    fee: Money
    tax_minor: int = 0  # the taxes that are charged on top of the fee

    @property
    def debit(self) -> Money:
        """The amount that is debited from the wallet."""
        return self.amount + self.fee + Money(self.amount.currency, self.tax_minor)


def debit_minor(table: str) -> str:
    """Returns the SQL of what a row costs. `table` is the name of its table in the query."""
    return f"({table}.amount_minor + {table}.fee_minor + {table}.tax_minor)"
