"""GET /api/v1/prices."""

from typing import Any

from manilla.prices.price import Way
from tests.payments.shop import Shop
from tests.prices.building import CARD, STAMP_DUTY, line, plan, tax
from tests.prices.conftest import UsePrices

PRICES = "/api/v1/prices?currency="


async def test_prices_list_the_lines_and_taxes_that_hold_now(
    shop: Shop, use_prices: UsePrices
) -> None:
    lines = [line(CARD, way=Way.CARD), line(CARD, currency="USD")]
    use_prices(shop.merchant.new.id, plan(*lines), tax(), STAMP_DUTY)

    body: dict[str, Any] = (await shop.merchant.get(PRICES + "NGN")).json

    assert (body["environment"], body["currency_code"]) == ("production", "NGN")
    assert body["lines"] == [
        {
            "direction": "payment",
            "way": "card",
            "method_code": None,
            "percent": 1.5,
            "fixed": 100,
            "waived_below": 2500,
            "minimum": None,
            "maximum": 2000,
            "rounded_to": 0.01,
            "is_own": True,
        }
    ]
    assert [(each["name"], each["rate"], each["amount"]) for each in body["taxes"]] == [
        ("stamp_duty", None, 50),
        ("vat", 7.5, None),
    ]


async def test_without_a_plan_the_percentage_is_returned(shop: Shop) -> None:
    body = (await shop.merchant.get(PRICES + "NGN")).json

    assert (body["plan"], body["lines"], body["taxes"]) == (None, [], [])
    assert body["commission_percent"] == 0


async def test_a_currency_that_is_not_enabled_is_rejected(shop: Shop) -> None:
    reply = await shop.merchant.get(PRICES + "USD")

    assert (reply.status, reply.json["error_code"]) == (422, "INVALID_CURRENCY")
