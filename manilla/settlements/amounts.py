"""How much of a balance one payout can settle."""

import bisect

from manilla.kit.money import Money
from manilla.methods.method import Method


def largest(method: Method, available: Money, limit: Money | None = None) -> Money | None:
    """Returns the largest amount up to the limit that `available` covers together with its fee.

    Returns None if even the method's minimum is not covered, or exceeds the limit.
    """

    def cost(minor: int) -> int:
        return minor + method.fee.of(Money(available.currency, minor)).minor

    limits = [method.max_minor, None if limit is None else limit.minor]
    most = min([available.minor, *(each for each in limits if each is not None)])
    minor = bisect.bisect_right(range(max(most, 0) + 1), available.minor, key=cost) - 1
    amount = Money(available.currency, max(minor, 0))
    return amount if method.takes(amount) else None


def is_partial(method: Method, available: Money, amount: Money) -> bool:
    """Whether, because of a limit, a part stays in the wallet that is large enough to settle."""
    rest = available - amount - method.fee.of(amount)
    return largest(method, rest) is not None
