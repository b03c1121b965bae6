"""The price of a transaction, from plan versions and tax rules."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.kit.price import PartKind, PriceTerms
from manilla.prices.price import (
    NO_PRICE,
    Priced,
    PriceDirection,
    Purpose,
    TaxBearer,
    TaxCollector,
    Way,
    charge,
    in_force,
    rules_in_force,
)
from tests.prices.building import ACCOUNT, CARD, FREE, NOON, STAMP_DUTY, line, naira, plan, tax

limits = st.none() | st.integers(0, 10**12)
terms = st.builds(
    PriceTerms,
    fixed_minor=st.integers(0, 10**12),
    percent=st.decimals(0, 100, places=4),
    minimum_minor=limits,
    maximum_minor=limits,
    waived_below_minor=limits,
    step_minor=st.sampled_from([1, 10, 100, 10_000]),
).filter(lambda each: each.maximum_minor is None or each.maximum_minor >= (each.minimum_minor or 0))
amounts = st.builds(Money, st.sampled_from(["NGN", "XOF", "KWD"]), st.integers(1, 10**16 - 1))


def priced(amount: Money, direction: str = "payment", **about: object) -> Priced:
    return Priced(
        direction=PriceDirection(direction),
        environment=Environment.PRODUCTION,
        amount=amount,
        **about,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("amount", "parts"),
    [
        ("2499.99", {"percent": 37_50, "fixed": 100_00, "waiver": -100_00}),
        ("2500", {"percent": 37_50, "fixed": 100_00}),
        ("126666.66", {"percent": 1_900_00, "fixed": 100_00}),
        ("1000000", {"percent": 15_000_00, "fixed": 100_00, "cap": -13_100_00}),
    ],
)
def test_a_price_lists_its_parts(amount: str, parts: dict[str, int]) -> None:
    assert {part.kind: part.minor for part in CARD.parts(naira(amount))} == parts


def test_a_minimum_adds_what_is_missing() -> None:
    of_small = PriceTerms(percent=Decimal(1), minimum_minor=50_00).parts(naira("100"))

    assert {part.kind: part.minor for part in of_small} == {"percent": 1_00, "minimum": 49_00}


def test_a_percentage_can_be_rounded_to_whole_units() -> None:
    whole = PriceTerms(percent=Decimal("1.5"), step_minor=100)

    assert [whole.of(naira(text)) for text in ("33", "33.34")] == [naira("0"), naira("1")]


@pytest.mark.parametrize(("currency", "fee"), [("XOF", 2), ("NGN", 2), ("KWD", 2)])
def test_a_percentage_is_rounded_half_up_in_any_currency(currency: str, fee: int) -> None:
    assert PriceTerms(percent=Decimal("1.5")).of(Money(currency, 100)) == Money(currency, fee)


@given(terms, amounts)
def test_parts_sum_to_a_price_within_its_limits(terms: PriceTerms, amount: Money) -> None:
    parts = terms.parts(amount)

    whole = terms.of(amount)
    assert sum(part.minor for part in parts) == whole.minor >= (terms.minimum_minor or 0)
    assert terms.maximum_minor is None or whole.minor <= terms.maximum_minor
    assert [part.kind for part in parts] == [k for k in PartKind if k in {p.kind for p in parts}]


@given(terms, amounts, st.decimals(0, 100, places=2), st.booleans())
def test_a_tax_is_never_more_than_its_base(
    terms: PriceTerms, amount: Money, rate: Decimal, included: bool
) -> None:
    rule = tax(currency=amount.currency, percent=rate, included=included)
    version = plan(line(terms, currency=amount.currency))

    charged = charge([version], [rule], priced(amount), FREE)

    assert charged.price is not None
    taxed = sum(each.minor for each in charged.price.taxes)
    assert 0 <= taxed <= charged.fee.minor
    added = charged.price.added_minor(TaxBearer.MERCHANT)
    assert added == (0 if included else taxed)


def test_the_most_specific_line_counts() -> None:
    version = plan(
        line(FREE),
        line(CARD, way=Way.CARD),
        line(ACCOUNT, method="provider-ngn"),
        line(PriceTerms(7), environment=Environment.SANDBOX),
    )

    def fee(**about: object) -> int:
        return charge([version], [], priced(naira("1000"), **about), FREE).fee.minor  # type: ignore[arg-type]

    assert fee() == 0
    assert fee(way=Way.CARD) == 15_00
    assert fee(way=Way.CARD, method="provider-ngn") == 10_00
    assert fee(way=Way.USSD, method="other-ngn") == 0


def test_exceptions_of_a_merchant_precede_its_plan() -> None:
    own = plan(line(FREE, way=Way.CARD), plan="own", merchant_id=7)
    versions = [own, plan(line(CARD), line(CARD, way=Way.CARD))]

    by_card = charge(versions, [], priced(naira("10000"), way=Way.CARD), ACCOUNT)
    otherwise = charge(versions, [], priced(naira("10000")), ACCOUNT)

    assert (by_card.fee, by_card.price and by_card.price.is_own) == (naira("0"), True)
    assert (otherwise.fee, otherwise.price and otherwise.price.plan) == (naira("250"), "standard")


def test_without_a_line_or_tax_nothing_is_stored() -> None:
    payout_line = plan(line(CARD, direction=PriceDirection.PAYOUT))

    charged = charge([payout_line], [STAMP_DUTY], priced(naira("9999")), ACCOUNT)

    assert (charged.fee, charged.price) == (naira("99.99"), None)


@pytest.mark.parametrize(
    ("amount", "about", "expected"),
    [
        ("9999.99", {}, 0),
        ("10000", {}, 50_00),
        ("10000", {"purpose": Purpose.SALARY}, 0),
        ("10000", {"purpose": Purpose.OWN_ACCOUNT}, 0),
        ("10000", {"direction": "settlement"}, 50_00),
        ("10000", {"direction": "payment"}, 0),
    ],
)
def test_stamp_duty_has_a_threshold_and_exemptions(
    amount: str, about: dict[str, object], expected: int
) -> None:
    asked = priced(naira(amount), **{"direction": "payout", **about})  # type: ignore[arg-type]

    charged = charge([], [STAMP_DUTY], asked, FREE)

    assert (charged.price or NO_PRICE).added_minor(TaxBearer.MERCHANT) == expected


def test_an_included_tax_is_a_part_of_the_fee() -> None:
    rule = tax(included=True)

    charged = charge([plan(line(PriceTerms(107_50)))], [rule], priced(naira("1000")), FREE)

    assert charged.price is not None
    assert [each.minor for each in charged.price.taxes] == [7_50]
    assert charged.price.added_minor(TaxBearer.MERCHANT) == 0


def test_a_tax_that_the_provider_has_taken_is_shown_and_not_owed() -> None:
    rule = tax(collected_by=TaxCollector.PROVIDER)

    charged = charge([], [rule], priced(naira("1000")), PriceTerms(100_00))

    assert charged.price is not None
    assert [each.minor for each in charged.price.taxes] == [7_50]
    assert charged.price.owed == ()
    assert charged.price.added_minor(TaxBearer.MERCHANT) == 0


def test_the_payer_of_the_fee_bears_its_tax() -> None:
    asked = priced(naira("1000"), fee_payer=TaxBearer.CUSTOMER)

    charged = charge([], [tax()], asked, PriceTerms(100_00))

    assert charged.price is not None
    assert charged.price.added_minor(TaxBearer.CUSTOMER) == 7_50
    assert charged.price.added_minor(TaxBearer.MERCHANT) == 0


def test_of_two_versions_with_the_same_start_the_later_one_counts() -> None:
    versions = [plan(version=1), plan(version=2), plan(version=3, starts_at=NOON + timedelta(1))]

    assert in_force(versions, NOON - timedelta(seconds=1)) is None
    assert in_force(versions, NOON) == versions[1]
    assert in_force(versions, NOON + timedelta(2)) == versions[2]


def test_a_later_rule_of_the_same_scope_replaces_a_tax() -> None:
    before, after = tax(), tax(number=2, since=NOON + timedelta(1), percent=Decimal(10))
    other = tax(number=3, directions=(PriceDirection.SETTLEMENT,))

    assert rules_in_force([after, before, other], NOON) == (before, other)
    assert rules_in_force([after, before, other], NOON + timedelta(1)) == (after, other)
