"""How checkout pages display money, times, and text from merchants and customers."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.checkout import display
from manilla.kit.money import DECIMALS, MINOR_MAX, Money
from tests.support.strategies import texts

NBSP = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (Money("NGN", 123_456_750), "₦1,234,567.50"),
        (Money("NGN", 5), "₦0.05"),
        (Money("USD", 123_400), "US$1,234.00"),
        (Money("KES", 123_400), f"KES{NBSP}1,234.00"),
        (Money("JPY", 1_234), "JP¥1,234"),
        (Money("KWD", 1_234_567), f"KWD{NBSP}1,234.567"),
    ],
)
def test_money_is_formatted_for_people(amount: Money, shown: str) -> None:
    assert display.money(amount) == shown


@given(st.sampled_from(sorted(DECIMALS)), st.integers(0, MINOR_MAX))
def test_no_digit_of_an_amount_is_lost(currency: str, minor: int) -> None:
    shown = display.money(Money(currency, minor))
    assert int("".join(digit for digit in shown if digit in "0123456789")) == minor


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (1_799, "29 min"),
        (3_600, "1 h 0 min"),
        (86_400, "1 day 0 h"),
        (604_799, "6 days 23 h"),
    ],
)
def test_a_duration_is_never_rounded_up(seconds: int, shown: str) -> None:
    assert display.duration(seconds) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ada\u202e serotS\u202c", "Ada serotS"),
        ("A\u200bd\u200da\ufeff", "Ada"),
        ("\u2066one\u2069 \u200ftwo", "one two"),
        ("a\x00\x1b[31mb\x7f", "a[31mb"),
        ("  one \t two  \r\n\r\n\r\n\r\n three ", "one two\n\nthree"),
        ("متجر عدا", "متجر عدا"),
        ("Ọlá naïve café 字 🛍", "Ọlá naïve café 字 🛍"),
        ("\u3164\u2800\u200b", ""),
    ],
)
def test_invisible_characters_are_removed(text: str, shown: str) -> None:
    assert display.clean(text) == shown


@pytest.mark.long
@given(texts())
def test_text_direction_overrides_are_isolated(text: str) -> None:
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not turning & {unicodedata.bidirectional(character) for character in display.clean(text)}


@pytest.mark.long
@given(texts(min_size=1), st.integers(1, 50))
def test_text_is_truncated(text: str, at_most: int) -> None:
    assert len(display.clean(text * 100, at_most)) <= at_most


@pytest.mark.long
@given(texts())
def test_a_name_is_one_line_and_never_empty(text: str) -> None:
    name = display.name(text)
    assert name
    assert "\n" not in name
    assert len(name) <= display.NAME_MAX
