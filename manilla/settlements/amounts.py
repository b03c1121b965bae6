"""Computes how much of a balance can be settled with one payout."""

import bisect
from collections.abc import Callable

from manilla.kit.money import Money
from manilla.kit.price import Price
from manilla.methods.method import Method

# What a settlement of an amount costs. By default, the method's fee.
Pricing = Callable[[Money], Price]


def largest(
    method: Method, available: Money, limit: Money | None = None, price: Pricing | None = None
) -> Money | None:
    """Returns the largest amount within the limit that `available` covers, with fee and taxes.

    Returns None if the method's minimum is not covered or exceeds the limit.
    """

    def cost(minor: int) -> int:
        return (price or method.price)(Money(available.currency, minor)).debit.minor

    limits = [method.max_minor, None if limit is None else limit.minor]
    most = min([available.minor, *(each for each in limits if each is not None)])
    minor = bisect.bisect_right(range(max(most, 0) + 1), available.minor, key=cost) - 1
    amount = Money(available.currency, max(minor, 0))
    return amount if method.takes(amount) else None


def is_partial(
    method: Method, available: Money, amount: Money, price: Pricing | None = None
) -> bool:
    """Whether enough money for another settlement stays in the wallet because of a limit."""
    rest = available - (price or method.price)(amount).debit
    return largest(method, rest, price=price) is not None
