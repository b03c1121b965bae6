"""Chooses the gateway for a way to pay that several gateways offer.

The result depends only on the arguments. It explains why each gateway was chosen, ranked lower or
skipped.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from manilla.kit.display import money
from manilla.kit.money import Money
from manilla.methods.method import Method
from manilla.payments.payment import Charge, ChargeStatus
from manilla.providers.port import Channel


class Reason(StrEnum):
    """The reason why a gateway is tried first, or next."""

    ONLY = "only"
    ONLY_AVAILABLE = "only_available"
    NO_SETBACKS = "no_setbacks"
    FEWEST_SETBACKS = "fewest_setbacks"
    ON_CHECKOUT = "on_checkout"
    FIRST_OF_MERCHANT = "first_of_merchant"
    NEXT_OF_MERCHANT = "next_of_merchant"
    LOWEST_FEE = "lowest_fee"
    FIRST_OF_PLATFORM = "first_of_platform"
    NEXT = "next"  # the previous gateway did not create a charge


_TEXTS = {
    Reason.ONLY: "the only gateway",
    Reason.ONLY_AVAILABLE: "the only gateway that is available",
    Reason.NO_SETBACKS: "no earlier problem with it",
    Reason.FEWEST_SETBACKS: "it had the fewest problems",
    Reason.ON_CHECKOUT: "the account for the transfer is shown on checkout",
    Reason.FIRST_OF_MERCHANT: "first in the merchant's order",
    Reason.NEXT_OF_MERCHANT: "next in the merchant's order",
    Reason.LOWEST_FEE: "the lowest fee",
    Reason.FIRST_OF_PLATFORM: "first in the platform's order",
}


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway, with all facts that its rank depends on."""

    method: Method
    name: str
    fee: Money  # for this payment
    place: int | None = None  # the gateway's position in the merchant's order, or None
    down_since: datetime | None = None  # when the provider stopped responding, or None
    # Whether the customer must leave checkout to see the account for a bank transfer.
    is_detour: bool = False
    setbacks: Sequence[str] = ()  # this payment's earlier problems with the gateway, oldest first

    @property
    def rank(self) -> tuple[float, ...]:
        """The best gateway has the lowest rank. No two gateways have the same rank."""
        place = math.inf if self.place is None else self.place
        method = self.method
        order = place, self.fee.minor, method.position, method.id
        return len(self.setbacks), self.is_detour, *order


class GatewayChoice(msgspec.Struct, frozen=True):
    """The gateways to try, best first, and the gateways that are down."""

    ranked: tuple[Candidate, ...]
    skipped: tuple[Candidate, ...]

    @property
    def is_between_several(self) -> bool:
        return len(self.ranked) + len(self.skipped) > 1

    def explain(self, number: int) -> str:
        """Explains why the gateway at this position of the ranking is tried."""
        best = self.ranked[number]
        if number > 0:
            before = self.ranked[number - 1].name
            return f"Chose {best.name}: next after {before}, which did not create a charge."
        later = self.ranked[1:]
        reason = self._why_best()
        fee = f", {money(best.fee)}" if reason is Reason.LOWEST_FEE else ""
        parts = [f"Chose {best.name}: {_TEXTS[reason]}{fee}"]
        parts += [f"then {each.name}: {_why_later(best, each)}" for each in later]
        parts += [f"skipped {each.name}: {_since(each)}" for each in self.skipped]
        return "; ".join(parts) + "."

    def facts(self, number: int) -> dict[str, str]:
        """Returns the details of the choice that merchants may see, without the provider's fee."""
        name = self.ranked[number].name
        if number > 0:
            before = self.ranked[number - 1].name
            return {"gateway": name, "reason": Reason.NEXT, "after": before}
        return {"gateway": name, "reason": self._why_best()}

    def _why_best(self) -> Reason:
        best, *later = self.ranked
        if not later:
            return Reason.ONLY_AVAILABLE if self.skipped else Reason.ONLY
        match _first_difference(best, later[0]):
            case 0:
                return Reason.FEWEST_SETBACKS if best.setbacks else Reason.NO_SETBACKS
            case 1:
                return Reason.ON_CHECKOUT
            case 2:
                is_first = all(best.rank[2] < each.rank[2] for each in (*later, *self.skipped))
                return Reason.FIRST_OF_MERCHANT if is_first else Reason.NEXT_OF_MERCHANT
            case 3:
                return Reason.LOWEST_FEE
        return Reason.FIRST_OF_PLATFORM


class CustomerWish(msgspec.Struct, frozen=True):
    """How a customer wants to pay."""

    choice: GatewayChoice
    channel: Channel | None = None  # None if the customer chose a gateway
    shown: str = ""  # description of the options and of the customer's choice
    seen: int = 0  # number of the latest charge that the checkout page has shown

    def accepts(self, charge: Charge, method: Method) -> bool:
        """Whether the customer can use an open charge to pay as they wish, without a new charge.

        A charge that the customer saw before choosing again is reused only for its own method,
        because its gateway may not have worked.
        """
        if charge.channel is not self.channel:
            return False
        codes = {each.method.code for each in self.choice.ranked}
        is_repeated = charge.number > self.seen and charge.method_code in codes
        return is_repeated or charge.method_code == method.code

    def explain(self, number: int) -> str:
        reason = self.choice.explain(number)
        return reason if number > 0 else f"{self.shown} {reason}"


def choose(candidates: Sequence[Candidate]) -> GatewayChoice:
    """Ranks the gateways, and skips those that are down.

    The criteria are, in this order: earlier problems, whether the customer must leave
    checkout, the merchant's order, the fee, and the platform's order.
    """
    ranked = sorted(candidates, key=lambda each: each.rank)
    return GatewayChoice(
        tuple(each for each in ranked if each.down_since is None),
        tuple(each for each in ranked if each.down_since is not None),
    )


def _why_later(best: Candidate, later: Candidate) -> str:
    match _first_difference(best, later):
        case 0:
            return later.setbacks[-1]
        case 1:
            return "the customer would have to leave checkout"
        case 2:
            return "later in the merchant's order"
        case 3:
            return f"a higher fee, {money(later.fee)}"
    return "later in the platform's order"


def _first_difference(one: Candidate, other: Candidate) -> int:
    pairs = zip(one.rank, other.rank, strict=True)
    return next(number for number, (a, b) in enumerate(pairs) if a != b)


def _since(skipped: Candidate) -> str:
    assert skipped.down_since is not None
    return f"down since {skipped.down_since.astimezone(UTC):%H:%M} UTC"


def setback(charge: Charge, channel: Channel | None, seen: int) -> str | None:
    """Returns the problem with an earlier charge that lowers its gateway's rank, or None."""
    if charge.error_code is None and (charge.status is ChargeStatus.FAILED or charge.is_uncertain):
        return "it did not create a charge"
    if charge.channel is not channel:
        return None  # a declined card does not mean that USSD will fail
    if charge.error_code is not None:
        return "it declined this payment"
    if charge.is_payable and charge.number <= seen:
        return "the customer came back from it without paying"
    return None
