"""A charge of a saved card pays the plan's line for cards, and its taxes."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from manilla.kit.price import PriceTerms
from manilla.margin import plans
from manilla.margin.figures import MarginFilter
from manilla.margin.runs import RunLimit
from manilla.merchants.merchants import CommissionBearer
from manilla.prices.price import Way
from tests.prices.building import line, plan, tax
from tests.prices.conftest import UsePrices, use_prices
from tests.saved_ways.steps import Lender

__all__ = ["use_prices"]

CARD, ANY = PriceTerms(percent=Decimal(2)), PriceTerms(percent=Decimal(4))


@pytest.mark.parametrize("bearer", list(CommissionBearer))
async def test_a_charge_pays_the_line_for_cards(
    lender: Lender, use_prices: UsePrices, bearer: CommissionBearer
) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.shop.set_commission("1", bearer)
    sold = plan(line(CARD, way=Way.CARD), line(ANY))
    use_prices(lender.tenant.merchant_id, sold, tax())
    before = await lender.shop.balance()

    reply = await lender.charge(customer, way.id, payment_amount=1000)

    is_merchant = bearer is CommissionBearer.MERCHANT
    info = reply.json["info"]
    assert (reply.json["status"], info["commission_fee"]) == ("success", 20)
    assert info["customer_pays"] == (1000 if is_merchant else 1021.5)
    charge = await lender.charge_of(reply.json["trx_id"])
    assert charge.amount_minor == (1000_00 if is_merchant else 1021_50)
    assert await lender.shop.balance() - before == (978_50 if is_merchant else 1000_00)
    assert await lender.shop.account("tax:vat") == 1_50
    today = datetime.now(UTC).date()
    wanted = MarginFilter(
        since=today - timedelta(days=1),
        until=today + timedelta(days=1),
        merchant_id=lender.tenant.merchant_id,
    )
    tried = await plans.try_plan(lender.db, wanted, sold, RunLimit(100, 10))
    [row] = [each for each in tried.rows if each.channel == Way.CARD]
    assert (row.actual_minor, row.computed.minor) == (20_00, 20_00)


async def test_a_fee_above_the_amount_rejects_a_charge(
    lender: Lender, use_prices: UsePrices
) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.shop.set_commission("1", CommissionBearer.MERCHANT)
    dear = line(PriceTerms(fixed_minor=501_00), way=Way.CARD)
    use_prices(lender.tenant.merchant_id, plan(dear, line(ANY)))
    reply = await lender.charge(customer, way.id)
    assert (reply.status, reply.code) == (400, "INVALID_AMOUNT")
    assert await lender.requests("paystack", "/charge_authorization") == []
