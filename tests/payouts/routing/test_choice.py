"""The choice of a rail is a pure function. The tests try every combination of its inputs."""

import itertools
from typing import Any

import msgspec
import pytest

from manilla.routing.choice import RailSnapshot, RouteDecision, RoutingSnapshot, SkipReason, choose

AMOUNT = 100_000
OBSTACLES: dict[SkipReason, dict[str, Any]] = {
    SkipReason.TRIED: {"was_tried": True},
    SkipReason.NOT_OFFERED: {"is_offered": False},
    SkipReason.DRAINING: {"is_draining": True},
    SkipReason.DOWN: {"is_down": True},
    SkipReason.UNKNOWN_BANK: {"bank_code": None},
    SkipReason.AMOUNT: {"maximum_minor": AMOUNT - 1},
    SkipReason.BALANCE: {"balance_minor": AMOUNT - 1},
    SkipReason.UNVERIFIED: {"problem": SkipReason.UNVERIFIED},
}


def rail(provider: str, priority: int = 1, **changed: Any) -> RailSnapshot:
    fields = {"provider": provider, "priority": priority, "bank_code": "058", **changed}
    return msgspec.convert(fields, RailSnapshot)


def chosen(*rails: RailSnapshot) -> RouteDecision:
    return choose(RoutingSnapshot(amount_minor=AMOUNT, bank="058", rails=rails))


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_rail_is_chosen_if_and_only_if_it_has_no_obstacle(count: int) -> None:
    for reasons in itertools.combinations(OBSTACLES, count):
        changed = {name: value for each in reasons for name, value in OBSTACLES[each].items()}
        decision = chosen(rail("first", 1, **changed), rail("second", 2))
        if reasons:
            assert decision.provider == "second"
            assert decision.skipped == {"first": min(reasons, key=list(OBSTACLES).index)}
        else:
            assert decision.provider == "first"
            assert decision.skipped == {"second": SkipReason.LATER}


def test_without_a_usable_rail_nothing_is_chosen() -> None:
    rails = [rail(f"rail{n}", n, **changed) for n, changed in enumerate(OBSTACLES.values())]
    decision = chosen(*rails)
    assert decision.provider is None
    assert list(decision.skipped.values()) == list(OBSTACLES)


def test_rails_that_are_not_failing_come_first_then_the_order_then_the_fee() -> None:
    expected = [
        rail("d", 1, fee_minor=5),
        rail("b", 1, fee_minor=10),
        rail("c", 1, fee_minor=10),
        rail("a", 2, fee_minor=1),
        rail("e", 0, is_failing=True),
    ]
    for rails in itertools.permutations(expected):
        left = list(rails)
        for best in expected:
            assert chosen(*left).provider == best.provider
            left.remove(best)


@pytest.mark.parametrize(
    ("minimum", "maximum", "balance", "fee", "is_chosen"),
    [
        (AMOUNT, AMOUNT, AMOUNT, 0, True),
        (AMOUNT + 1, None, None, 0, False),
        (1, AMOUNT - 1, None, 0, False),
        # The balance must cover only the amount, because the fee is already deducted.
        (1, None, AMOUNT, 10, True),
        (1, None, AMOUNT - 1, 10, False),
        (1, None, None, 10, True),  # If the balance is unknown, the rail itself decides.
    ],
)
def test_limits_and_balance_are_exact(
    minimum: int, maximum: int | None, balance: int | None, fee: int, is_chosen: bool
) -> None:
    one = rail(
        "a", minimum_minor=minimum, maximum_minor=maximum, balance_minor=balance, fee_minor=fee
    )
    assert (chosen(one).provider == "a") is is_chosen


def test_a_decision_can_be_stored_and_read() -> None:
    decision = chosen(rail("a", is_down=True), rail("b"))
    assert msgspec.json.decode(msgspec.json.encode(decision), type=RouteDecision) == decision
