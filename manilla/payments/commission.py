"""The platform's commission on a payment, and who pays it."""

from decimal import Decimal
from typing import Generic, TypeVar

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants.merchants import CommissionBearer

# The largest payment, in minor units of any currency.
# `Money` can hold this amount plus a 100 % commission. A wallet can hold hundreds of such payments.
AMOUNT_MINOR_MAX = 10**16 - 1
MINIMUM = 1
TOO_SMALL = "The minimum is 1.00."


AnyAmount = TypeVar("AnyAmount", Money, Decimal)


class QuotedAmounts(msgspec.Struct, Generic[AnyAmount], frozen=True):
    """The amounts that the customer pays and the merchant receives."""

    amount: AnyAmount
    commission: AnyAmount
    bearer: CommissionBearer

    @property
    def customer_pays(self) -> AnyAmount:
        return (
            self.amount + self.commission
            if self.bearer == CommissionBearer.CUSTOMER
            else self.amount
        )

    @property
    def merchant_receives(self) -> AnyAmount:
        return self.amount

    @property
    def divisible(self) -> AnyAmount:
        """What remains of the customer's money after the commission, whoever bears it."""
        return self.customer_pays - self.commission


class Quote(QuotedAmounts[Money], frozen=True):
    def deducted_later(self, environment: Environment) -> Money:
        """Returns the commission to deduct from the wallet on completion (0 in the sandbox)."""
        deducts = self.bearer is CommissionBearer.MERCHANT and environment is Environment.PRODUCTION
        return self.commission if deducts else Money(self.amount.currency, 0)


def quote(amount: Money, percent: Decimal, bearer: CommissionBearer) -> Quote:
    return Quote(amount, amount.percent(percent), bearer)


def amount_problem(amount: Money) -> str | None:
    """Returns why the amount is invalid for a payment, or None if it is valid."""
    if amount.amount < MINIMUM:
        return TOO_SMALL
    if amount.minor > AMOUNT_MINOR_MAX:
        most = Money(amount.currency, AMOUNT_MINOR_MAX)
        return f"The maximum is {most.amount:,f}."
    return None
