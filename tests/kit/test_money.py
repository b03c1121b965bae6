from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.kit import strict_json
from manilla.kit.money import DECIMALS, MINOR_MAX, Money, MoneyError

minors = st.integers(-MINOR_MAX, MINOR_MAX)
currencies = st.sampled_from(sorted(DECIMALS))


@given(currencies, minors)
def test_an_amount_survives_serialization_and_parsing(currency: str, minor: int) -> None:
    amount = Money(currency, minor).amount
    sent = strict_json.encode({"amount": amount})
    assert Money.of(strict_json.decode(sent)["amount"], currency) == Money(currency, minor)


def test_amounts_with_more_digits_than_a_float_are_exact() -> None:
    document = b'{"amount":90071992547409.93}'
    assert strict_json.encode(strict_json.decode(document)) == document


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [("1", "NGN", 100), ("0.01", "NGN", 1), ("5", "JPY", 5)]
    + [("1.234", "KWD", 1234), ("-0.5", "NGN", -50), ("999999999999999.99", "NGN", MINOR_MAX)],
)
def test_amounts_are_stored_exactly(amount: str, currency: str, minor: int) -> None:
    assert Money.of(amount, currency) == Money(currency, minor)


@pytest.mark.parametrize(
    ("amount", "currency"),
    [
        ("0.001", "NGN"),
        ("10.000", "NGN"),
        ("1.5", "JPY"),
        ("1e400", "NGN"),
        ("1e-400", "NGN"),
        ("1e2", "NGN"),
    ]
    + [
        ("NaN", "NGN"),
        ("Infinity", "NGN"),
        ("-Infinity", "NGN"),
        ("sNaN", "NGN"),
        ("x", "NGN"),
        ("1_000", "NGN"),
    ]
    + [(" 1", "NGN"), ("\u0663", "NGN"), ("", "NGN"), ("1e99999999999999999999", "NGN")]
    + [("1000000000000000", "NGN"), ("1", "XXX"), ("1", "ngn"), ("1." + "0" * 40 + "1", "NGN")],
)
def test_an_amount_that_cannot_be_exact_is_rejected(amount: str, currency: str) -> None:
    with pytest.raises(MoneyError):
        Money.of(amount, currency)


@pytest.mark.parametrize(
    ("minor", "rate", "expected"),
    [(4300, "1.5", 65), (4299, "1.5", 64), (1, "50", 1), (3, "50", 2), (100, "0", 0)],
)
def test_percentages_round_half_up(minor: int, rate: str, expected: int) -> None:
    assert Money("NGN", minor).percent(Decimal(rate)) == Money("NGN", expected)


@given(st.integers(0, MINOR_MAX), st.decimals(0, 100, places=4))
def test_a_percentage_is_within_half_a_minor_unit(minor: int, rate: Decimal) -> None:
    share = Money("NGN", minor).percent(rate).minor
    assert -50 * 10**4 <= minor * int(rate * 10**4) - share * 100 * 10**4 < 50 * 10**4


def test_an_exponent_is_allowed_in_numbers_and_not_in_text() -> None:
    assert Money.of(Decimal("1e2"), "NGN") == Money("NGN", 10000)
    with pytest.raises(MoneyError):
        Money.of(Decimal("1e400"), "NGN")


def test_amounts_in_different_currencies_cannot_be_added() -> None:
    with pytest.raises(AssertionError):
        Money("NGN", 1) + Money("USD", 1)
