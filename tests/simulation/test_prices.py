"""The model of prices finds a wrong price, and accepts earlier prices only while they can hold."""

import time
from dataclasses import replace

import pytest

from tests.simulation.prices import DUTY, EVERYONE, LINES, PAYMENT, TAXES, VAT, Prices, Terms

ABOUT = (7, PAYMENT, 2000_00, "customer", Terms("1.5"))
TAX = dict(TAXES[:1] + TAXES[6:7])


def _changed() -> Prices:
    prices = Prices()
    prices.change(plans={(EVERYONE, "standard"): 0}, assigned={EVERYONE: "standard"})
    prices.next_start()
    prices.change(taxes=TAX)
    prices.next_start()
    return prices


def test_a_price_has_the_parts_of_the_plan_and_the_taxes() -> None:
    price = _changed().books[-1].price(*ABOUT)

    assert price.parts == (("percent", 28_00), ("fixed", 20_00))
    assert price.taxes == ((DUTY, 15_00, "merchant"), (VAT, 3_60, "customer"))
    assert LINES[0][PAYMENT, ""].parts(999_99) == (
        ("percent", 14_00),
        ("fixed", 20_00),
        ("waiver", -20_00),
    )


def test_earlier_prices_are_accepted_while_a_clock_can_be_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prices = _changed()
    earlier, newest = prices.books[0].price(*ABOUT), prices.books[-1].price(*ABOUT)

    assert all(list(prices.matching(price, *ABOUT)) for price in (earlier, newest))
    prices.settle()
    assert len(prices.books) == 3
    monkeypatch.setattr(time, "time", lambda: 2e9)
    prices.settle()
    assert not list(prices.matching(earlier, *ABOUT))
    assert not list(prices.matching(replace(newest, fee=newest.fee + 1), *ABOUT))


def test_each_change_starts_after_the_changes_before_it() -> None:
    prices = _changed()

    assert prices.next_start() < prices.next_start()
    assert not prices.have_started
