"""Each provider's fees. The fees are invented if the provider's contract contains no prices."""

from decimal import Decimal

import msgspec

from manilla.kit.money import Money
from manilla_simulator.state import CURRENCY


class Fees(msgspec.Struct, frozen=True):
    transfer: Money  # a flat fee, which is charged in addition to the amount
    # The provider deducts this percentage from the amount that the customer pays.
    charge_percent: Decimal
    charge_most: Money

    def of_charge(self, paid: Money) -> Money:
        return min(paid.percent(self.charge_percent), self.charge_most)


PROVIDER_A = Fees(Money(CURRENCY, 10_00), Decimal("1.5"), Money(CURRENCY, 2_000_00))
PROVIDER_B = Fees(Money(CURRENCY, 15_00), Decimal("1.2"), Money(CURRENCY, 1_500_00))
PAYSTACK = Fees(Money(CURRENCY, 10_00), Decimal("1.5"), Money(CURRENCY, 2_000_00))
KORA = Fees(Money(CURRENCY, 20_00), Decimal("1.6125"), Money(CURRENCY, 2_150_00))  # including VAT
MONNIFY = Fees(Money(CURRENCY, 20_00), Decimal("1.6"), Money(CURRENCY, 2_000_00))
# This transfer fee is Flutterwave's lowest. Larger transfers have higher fees.
FLUTTERWAVE = Fees(Money(CURRENCY, 10_75), Decimal("1.4"), Money(CURRENCY, 2_000_00))
PROVIDER_C = Fees(Money(CURRENCY, 10_75), Decimal("1.4"), Money(CURRENCY, 2_000_00))
