"""Every accepted notation of an amount that a user types has exactly one meaning."""

import re
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manilla.kit.amount_input import parse_amount, parse_number, parse_signed_amount
from manilla.kit.money import DECIMALS, MINOR_MAX, Money, MoneyError

REJECTED = (
    *("1500,50", "1.500,50", "1 500", "1 500.00", "1\u00a0500", "1\u202f500", "1'500", "1_500"),
    *("1e3", "+5", "-5", "(5)", "5-", "NaN", "Infinity", "0x10", "½", "\uff11\uff15", "٣", "५"),
    *("1,50", "1,5", "1,5000", "1,50,000", "12,34", ",500", "1,,500", "0,500", "015", "00"),
    *(".5", "5.", "1.2.3", "1.500", "1,500.505", "", " ", "x", "=1500", "'1500", "1500 NGN"),
    *("₦", "₦₦5", "₦-5", "NGN", "USD 5", "$5", "€5", "N1500", "₦ USD 5", "9" * 31),
)


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("1500", 150_000),
        ("1500.5", 150_050),
        ("1,500.50", 150_050),
        ("12,345,678.90", 1_234_567_890),
        (" 15 ", 1_500),
        ("₦1,500.50", 150_050),
        ("₦ 1500", 150_000),
        ("NGN 1500", 150_000),
        ("ngn1500.5", 150_050),
        ("0", 0),
        ("0.05", 5),
    ],
)
def test_amounts_are_read_in_common_notations(text: str, minor: int) -> None:
    assert parse_amount(text, "NGN") == Money("NGN", minor)


@pytest.mark.parametrize("text", REJECTED)
def test_other_notations_are_rejected_with_a_hint(text: str) -> None:
    with pytest.raises(MoneyError, match=r"Write .*[0-9]\.[0-9]"):
        parse_amount(text, "NGN")


@pytest.mark.parametrize("text", ["1500,50", "1.500,50"])
def test_a_decimal_comma_is_rejected_with_a_hint_and_never_converted(text: str) -> None:
    with pytest.raises(MoneyError, match=r"Write 1500\.50\."):
        parse_amount(text, "NGN")


def test_a_currency_prefix_must_match_the_amounts_currency() -> None:
    assert parse_amount("USD 5", "USD") == Money("USD", 500)
    for text in ("₦5", "NGN 5", "EUR5"):
        with pytest.raises(MoneyError, match="must be in USD"):
            parse_amount(text, "USD")


def test_decimals_follow_the_currency() -> None:
    assert parse_amount("1,500.125", "KWD") == Money("KWD", 1_500_125)
    with pytest.raises(MoneyError, match=r"JPY has no decimals.*1500\."):
        parse_amount("1500.5", "JPY")


def test_percentages_accept_the_same_notations() -> None:
    assert parse_number(" 1.5 ") == Decimal("1.5")
    for text in ("1,5", "-1", "1e1", "1.5%", "", "NaN"):
        with pytest.raises(MoneyError):
            parse_number(text)


@given(st.sampled_from(sorted(DECIMALS)), st.integers(0, MINOR_MAX))
def test_every_amount_is_read_in_every_notation(currency: str, minor: int) -> None:
    amount = Money(currency, minor)
    for text in (f"{amount.amount:f}", f"{amount.amount:,f}", f"{currency} {amount.amount:,f}"):
        assert parse_amount(text, currency) == amount


def _with_decimal_comma(text: str) -> Money | None:
    """Parses an amount with a decimal comma. Returns None if the text is no such amount."""
    plain = text.strip().removeprefix("₦").removeprefix("NGN").strip()
    if not re.fullmatch(r"([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]{1,2})?", plain):
        return None
    return Money.of(plain.replace(".", "").replace(",", "."), "NGN")


texts = st.text("0123456789.,,.. ₦NGe+-\u00a0٣\uff11", max_size=12)


@given(st.one_of(texts, st.from_regex(r"[0-9]{1,4}([.,][0-9]{1,3}){0,3}", fullmatch=True)))
@example("1,500")
@example("1.500")
def test_no_accepted_amount_means_something_else_with_decimal_commas(text: str) -> None:
    try:
        amount = parse_amount(text, "NGN")
    except MoneyError:
        return
    assert amount.minor >= 0
    assert _with_decimal_comma(text) in (None, amount)


@pytest.mark.parametrize(
    ("text", "minor"),
    [("-1,500.50", -150_050), ("+5", 500), ("5", 500), ("-₦5", -500), ("-0", 0), (" -5 ", -500)],
)
def test_a_signed_amount_has_the_same_grammar_after_its_sign(text: str, minor: int) -> None:
    assert parse_signed_amount(text, "NGN") == Money("NGN", minor)


@pytest.mark.parametrize(
    "text", ["-2,5", "1500,50", "--5", "+-5", "- ", "(5)", "5-", "\u22125", "-1.500", "₦-5", ""]
)
def test_an_ambiguous_signed_amount_is_rejected(text: str) -> None:
    with pytest.raises(MoneyError):
        parse_signed_amount(text, "NGN")
