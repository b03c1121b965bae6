"""Which gateway the checkout chooses for a way to pay, and the reason that it records."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.methods.method import Flow, Method, MethodKind
from manilla.payments.choice import Candidate, choose

DOWN = datetime(2026, 11, 16, 14, 5, tzinfo=UTC)
AMOUNT = Money("NGN", 1_000_00)


def gateway(name: str, position: int, fee: PriceTerms | None = None, **given: Any) -> Candidate:
    method = Method(
        kind=MethodKind.DEPOSIT,
        id=position,
        code=f"{name.lower()}-ngn",
        name=name,
        provider=name.lower(),
        flow=Flow.HOSTED,
        currency="NGN",
        active=True,
        position=position,
        min_minor=100,
        max_minor=None,
        fee=fee or PriceTerms(),
    )
    return Candidate(method=method, name=name, fee=method.fee.of(AMOUNT), **given)


def names(candidates: tuple[Candidate, ...]) -> list[str]:
    return [each.name for each in candidates]


def test_the_merchants_order_comes_before_the_fee() -> None:
    cheap = gateway("Kora", 1, place=1)
    first = gateway("Paystack", 2, PriceTerms(fixed_minor=50_00), place=0)
    choice = choose([cheap, first])
    assert names(choice.ranked) == ["Paystack", "Kora"]
    assert choice.explain(0) == (
        "Chose Paystack: first in the merchant's order; then Kora: later in the merchant's order."
    )


def test_a_gateway_that_is_down_is_skipped_with_the_time() -> None:
    choice = choose([gateway("Kora", 1, place=0, down_since=DOWN), gateway("Paystack", 2, place=1)])
    assert (names(choice.ranked), names(choice.skipped)) == (["Paystack"], ["Kora"])
    assert choice.explain(0) == (
        "Chose Paystack: the only gateway that is available; skipped Kora: down since 14:05 UTC."
    )


def test_after_a_skipped_gateway_the_next_in_the_merchants_order_is_chosen() -> None:
    candidates = [
        gateway("Kora", 1, place=0, down_since=DOWN),
        gateway("Paystack", 2, place=1),
        gateway("Monnify", 3, place=2),
    ]
    explained = choose(candidates).explain(0)
    assert explained.startswith("Chose Paystack: next in the merchant's order; then Monnify:")


def test_without_an_order_the_lowest_fee_for_this_amount_is_chosen() -> None:
    fixed = gateway("Kora", 1, PriceTerms(fixed_minor=20_00))
    percent = gateway("Paystack", 2, PriceTerms(percent=Decimal("1.5")))
    choice = choose([fixed, percent])
    assert names(choice.ranked) == ["Paystack", "Kora"]
    assert choice.explain(0) == (
        "Chose Paystack: the lowest fee, ₦15.00; then Kora: a higher fee, ₦20.00."
    )


def test_gateways_in_the_merchants_order_come_before_others() -> None:
    other, placed = gateway("Kora", 1), gateway("Paystack", 2, place=0)
    assert names(choose([other, placed]).ranked) == ["Paystack", "Kora"]


def test_equal_gateways_keep_the_platforms_order() -> None:
    choice = choose([gateway("Paystack", 2), gateway("Kora", 1)])
    assert names(choice.ranked) == ["Kora", "Paystack"]
    assert choice.explain(0) == (
        "Chose Kora: first in the platform's order; then Paystack: later in the platform's order."
    )


def test_a_gateway_that_declined_this_payment_is_tried_last() -> None:
    declined = gateway("Kora", 1, place=0, setbacks=["it declined this payment"])
    choice = choose([declined, gateway("Paystack", 2, place=1)])
    assert choice.explain(0) == (
        "Chose Paystack: no earlier problem with it; then Kora: it declined this payment."
    )


def test_the_next_gateway_is_explained_by_the_one_before() -> None:
    choice = choose([gateway("Kora", 1), gateway("Paystack", 2)])
    assert choice.explain(1) == ("Chose Paystack: next after Kora, which did not create a charge.")


CANDIDATES = st.lists(
    st.builds(
        lambda number, fee, place, is_down, setbacks: gateway(
            f"G{number}",
            number,
            PriceTerms(fixed_minor=fee),
            place=place,
            down_since=DOWN if is_down else None,
            setbacks=["it declined this payment"] * setbacks,
        ),
        st.integers(1, 50),
        st.integers(0, 3),
        st.none() | st.integers(0, 3),
        st.booleans(),
        st.integers(0, 3),
    ),
    max_size=8,
    unique_by=lambda each: each.method.id,
)


@given(CANDIDATES, st.randoms())
def test_the_choice_does_not_depend_on_the_order_of_the_candidates(
    candidates: list[Candidate], random: Any
) -> None:
    shuffled = random.sample(candidates, len(candidates))
    assert choose(shuffled) == choose(candidates)


@given(CANDIDATES)
def test_each_gateway_is_either_tried_once_or_skipped_because_it_is_down(
    candidates: list[Candidate],
) -> None:
    choice = choose(candidates)
    assert sorted(names(choice.ranked + choice.skipped)) == sorted(names(tuple(candidates)))
    assert all(each.down_since is None for each in choice.ranked)
    if choice.ranked:
        explained = choice.explain(0)
        assert all(each.name in explained for each in candidates)
