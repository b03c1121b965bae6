"""How much of a balance one payout can settle."""

import bisect

from manilla.kit.money import Money
from manilla.methods.method import Method


def largest(method: Method, available: Money) -> Money | None:
    """Returns the largest amount that costs at most `available` with its fee.

    None if even the method's smallest amount costs more.
    """

    def cost(minor: int) -> int:
        return minor + method.fee.of(Money(available.currency, minor)).minor

    most = available.minor if method.max_minor is None else min(available.minor, method.max_minor)
    minor = bisect.bisect_right(range(max(most, 0) + 1), available.minor, key=cost) - 1
    amount = Money(available.currency, max(minor, 0))
    return amount if method.takes(amount) else None
