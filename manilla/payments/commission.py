"""Who pays what: the platform's commission on a payment."""

from decimal import Decimal

import msgspec

from manilla.kit.money import Money
from manilla.ledger.posting import Environment
from manilla.merchants.merchants import Bearer

# In minor units of any currency: with a commission of up to 100 % on top it is still an amount that
# `Money` holds, and a wallet holds hundreds of them.
AMOUNT_MINOR_MAX = 10**16 - 1


class Quote(msgspec.Struct, frozen=True):
    amount: Money
    commission: Money
    bearer: Bearer

    @property
    def customer_pays(self) -> Money:
        return self.amount + self.commission if self.bearer is Bearer.CUSTOMER else self.amount

    @property
    def merchant_receives(self) -> Money:
        return self.amount

    def deducted_later(self, environment: Environment) -> Money:
        """What leaves the merchant's wallet when the payment completes; never so in the sandbox."""
        deducts = self.bearer is Bearer.MERCHANT and environment is Environment.PRODUCTION
        return self.commission if deducts else Money(self.amount.currency, 0)


def quote(amount: Money, percent: Decimal, bearer: Bearer) -> Quote:
    return Quote(amount, amount.percent(percent), bearer)
