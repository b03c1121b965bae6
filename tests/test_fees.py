from decimal import Decimal

import pytest

from manilla.kit.money import Money
from manilla.methods.method import Fee


@pytest.mark.parametrize(
    ("fee", "amount", "expected"),
    [
        (Fee(), 100_000, 0),
        (Fee(fixed_minor=2500), 100_000, 2500),
        (Fee(percent=Decimal("1.5")), 4300, 65),
        (Fee(percent=Decimal("1.5")), 14_300, 215),
        (Fee(percent=Decimal("1.5")), 14_299, 214),
        (Fee(percent=Decimal("0.0001")), 500_000, 1),
        (Fee(percent=Decimal("0.0001")), 499_999, 0),
        (Fee(2500, Decimal("1.5")), 4300, 2565),
        (Fee(0, Decimal("1.5"), minimum_minor=1501), 100_067, 1501),
        (Fee(0, Decimal("1.5"), minimum_minor=1501), 100_100, 1502),
        (Fee(0, Decimal("1.5"), maximum_minor=1499), 100_000, 1499),
        (Fee(5000, Decimal(1), maximum_minor=6000), 99_999, 6000),
        (Fee(5000, Decimal(1), maximum_minor=6001), 100_050, 6001),
        (Fee(0, Decimal(0), 700, 700), 100_000, 700),
        (Fee(0, Decimal(1), minimum_minor=1000), 100, 1000),
        (Fee(0, Decimal(1), maximum_minor=2000), 10_000_000, 2000),
        (Fee(0, Decimal(1), 1000, 2000), 150_000, 1500),
    ],
)
def test_a_fee_is_fixed_plus_percentage_within_its_limits(
    fee: Fee, amount: int, expected: int
) -> None:
    assert fee.of(Money("NGN", amount)) == Money("NGN", expected)
