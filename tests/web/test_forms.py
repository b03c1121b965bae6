"""Form input with more than one possible meaning is rejected."""

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.money import Money
from manilla.web.csrf import Csrf, ForgedForm
from manilla.web.forms import BadForm, Form


@pytest.mark.parametrize(
    ("typed", "minor"),
    [
        ("1500.50", 150_050),
        (" 1,500.5 ", 150_050),
        ("12,345,678", 1_234_567_800),
        ("0", 0),
        ("₦1,500.50", 150_050),
        ("NGN 1500.5", 150_050),
    ],
)
def test_amounts_are_read_in_common_notations(typed: str, minor: int) -> None:
    assert Form({"amount": typed}).money("amount", "NGN") == Money("NGN", minor)


@pytest.mark.parametrize(
    "typed",
    [
        "1500,50",
        "1.500,50",
        "1 500",
        "-1",
        "+1",
        "$1",
        "1,5",
        "1,50,000",
        "1_000",
        "1e3",
        "NaN",
        "Infinity",
        "0x10",
        "\N{ARABIC-INDIC DIGIT THREE}",
        "1.005",
        "",
        ".",
        "9" * 25,
    ],
)
def test_an_ambiguous_amount_is_rejected(typed: str) -> None:
    with pytest.raises(BadForm) as refused:
        Form({"amount": typed}).money("amount", "NGN")
    assert set(refused.value.errors or {}) == {"amount"}


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * 20_001])
def test_text_that_cannot_be_stored_is_rejected(text: str) -> None:
    with pytest.raises(BadForm):
        Form({"name": text})


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "unknown"])
def test_a_form_that_another_site_sends_is_rejected_even_with_a_valid_token(
    keyring: Keyring, site: str
) -> None:
    csrf = Csrf(keyring)
    token = csrf.token("cookie")
    for own in (None, "same-origin", "none"):
        csrf.check("cookie", token, own)
    with pytest.raises(ForgedForm):
        csrf.check("cookie", token, site)
    with pytest.raises(ForgedForm):
        csrf.check("another cookie", token, None)
