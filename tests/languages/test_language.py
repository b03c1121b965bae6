"""Texts, money and dates in a customer's language."""

import re
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manilla.kit import display
from manilla.kit.money import DECIMALS, MINOR_MAX, Money
from manilla.languages import language
from manilla.languages.language import ENGLISH, CustomerLanguage

EVERY = list(language.languages().values())
AT = datetime(2026, 9, 3, 23, 30, tzinfo=UTC)


def test_the_languages_are_the_catalogues() -> None:
    names = {each.code: each.name for each in EVERY}
    assert names == {
        "en": "English",
        "fr": "Français",
        "ha": "Hausa",
        "ig": "Igbo",
        "pcm": "Pidgin",
        "yo": "Yorùbá",
    }
    assert {each.direction for each in EVERY} == {"ltr"}


@pytest.mark.parametrize("shown", EVERY, ids=lambda each: each.code)
@given(currency=st.sampled_from(sorted(DECIMALS)), minor=st.integers(-MINOR_MAX, MINOR_MAX))
def test_no_language_changes_an_amount(shown: CustomerLanguage, currency: str, minor: int) -> None:
    amount = Money(currency, minor)
    digits = re.sub(r"[^\d-]", "", shown.money(amount))
    assert Decimal(digits).scaleb(-DECIMALS[currency]) == amount.amount


def test_naira_keeps_its_symbol_and_two_decimals() -> None:
    amount = Money.of("1234567.50", "NGN")
    english = "₦1,234,567.50"
    french = "1\u00a0234\u00a0567,50\u00a0₦"
    shown = {each.code: each.money(amount) for each in EVERY}
    assert shown == dict.fromkeys(("en", "ha", "ig", "pcm", "yo"), english) | {"fr": french}
    assert language.find("fr").money(Money.of("-2", "NGN")) == "-2,00\u00a0₦"


def test_english_is_as_before() -> None:
    assert ENGLISH.day(AT) == "03 September 2026"
    assert ENGLISH.moment(AT) == display.moment_text(AT) == "4 Sep 2026, 00:30"
    assert ENGLISH.duration(90_000) == display.duration(90_000) == "1 day 1 h"


@pytest.mark.parametrize(
    ("code", "day", "moment", "month", "durations"),
    [
        (
            "fr",
            "3 septembre 2026",
            "4 septembre 2026, 00:30",
            "septembre 2026",
            ("1 jour 1 h", "2 jours 0 h"),
        ),
        (
            "ha",
            "3 Satumba, 2026",
            "4 Satumba, 2026, 00:30",
            "Satumba 2026",
            ("Kwana 1, awa 1", "Kwanaki 2, awa 0"),
        ),
        (
            "pcm",
            "3 September 2026",
            "4 September 2026, 00:30",
            "September 2026",
            ("1 day 1 h", "2 days 0 h"),
        ),
    ],
)
def test_dates_and_durations_are_in_the_language(
    code: str, day: str, moment: str, month: str, durations: tuple[str, str]
) -> None:
    shown = language.find(code)
    assert (shown.day(AT), shown.moment(AT), shown.month(AT)) == (day, moment, month)
    assert (shown.duration(90_000), shown.duration(172_800)) == durations
    assert [language.find("fr").duration(each) for each in (3_700, 125, 9)] == [
        "1 h 1 min",
        "2 min",
        "9 s",
    ]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("", "en"),
        ("*", "en"),
        ("fr", "fr"),
        ("fr-FR,fr;q=0.9,en;q=0.8", "fr"),
        ("FR-ca", "fr"),
        ("en-NG,yo;q=0.9", "en"),
        ("de,ig;q=0.5,ha;q=0.7", "ha"),
        ("fr;q=0,pcm;q=0.1", "pcm"),
        ("pcm-NG", "pcm"),
        ("fr;q=x,ha", "ha"),
        ("français", "en"),
        (";;,,=", "en"),
        ("de," * 400 + "fr", "en"),
    ],
)
def test_the_browser_says_which_language_it_prefers(header: str, code: str) -> None:
    assert language.of_browser(header).code == code


def test_a_missing_text_is_in_english() -> None:
    assert language.find("fr").gettext("No catalogue has this.") == "No catalogue has this."
    assert language.find("xx") is language.find(None) is ENGLISH
