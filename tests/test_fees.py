from decimal import Decimal

import pytest

from manilla.kit.money import Money
from manilla.kit.price import PriceTerms


@pytest.mark.parametrize(
    ("fee", "amount", "expected"),
    [
        (PriceTerms(), 100_000, 0),
        (PriceTerms(fixed_minor=2500), 100_000, 2500),
        (PriceTerms(percent=Decimal("1.5")), 4300, 65),
        (PriceTerms(percent=Decimal("1.5")), 14_300, 215),
        (PriceTerms(percent=Decimal("1.5")), 14_299, 214),
        (PriceTerms(percent=Decimal("0.0001")), 500_000, 1),
        (PriceTerms(percent=Decimal("0.0001")), 499_999, 0),
        (PriceTerms(2500, Decimal("1.5")), 4300, 2565),
        (PriceTerms(0, Decimal("1.5"), minimum_minor=1501), 100_067, 1501),
        (PriceTerms(0, Decimal("1.5"), minimum_minor=1501), 100_100, 1502),
        (PriceTerms(0, Decimal("1.5"), maximum_minor=1499), 100_000, 1499),
        (PriceTerms(5000, Decimal(1), maximum_minor=6000), 99_999, 6000),
        (PriceTerms(5000, Decimal(1), maximum_minor=6001), 100_050, 6001),
        (PriceTerms(0, Decimal(0), 700, 700), 100_000, 700),
        (PriceTerms(0, Decimal(1), minimum_minor=1000), 100, 1000),
        (PriceTerms(0, Decimal(1), maximum_minor=2000), 10_000_000, 2000),
        (PriceTerms(0, Decimal(1), 1000, 2000), 150_000, 1500),
    ],
)
def test_a_fee_is_fixed_plus_percentage_within_its_limits(
    fee: PriceTerms, amount: int, expected: int
) -> None:
    assert fee.of(Money("NGN", amount)) == Money("NGN", expected)
