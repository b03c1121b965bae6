from decimal import Decimal

import pytest

from manilla.kit.money import Money
from manilla.methods.fees import Fee


@pytest.mark.parametrize(
    ("fee", "amount", "expected"),
    [
        (Fee(), 100_000, 0),
        (Fee(fixed_minor=2500), 100_000, 2500),
        (Fee(percent=Decimal("1.5")), 4300, 65),
        (Fee(2500, Decimal("1.5")), 4300, 2565),
        (Fee(0, Decimal(1), minimum_minor=1000), 100, 1000),
        (Fee(0, Decimal(1), maximum_minor=2000), 10_000_000, 2000),
        (Fee(0, Decimal(1), 1000, 2000), 150_000, 1500),
    ],
)
def test_a_fee_is_fixed_plus_percentage_within_its_limits(
    fee: Fee, amount: int, expected: int
) -> None:
    assert fee.of(Money("NGN", amount)) == Money("NGN", expected)
