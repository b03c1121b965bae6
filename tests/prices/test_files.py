"""The files of payments, payouts and statements have a column for taxes, if there are taxes."""

import csv
import io
from decimal import Decimal

import pytest

from manilla.kit.price import PriceTerms
from manilla.merchants.merchants import CommissionBearer
from manilla.prices.price import PriceDirection
from manilla.services import Services
from tests.dashboard.merchant_dashboard import unchunked
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant
from tests.prices.building import STAMP_DUTY, line, plan, tax
from tests.prices.conftest import UsePrices
from tests.support.client import Site
from tests.web.signed_in_user import SignedInUser, administrator, member

STATEMENT = "/production/wallets/NGN"


async def _rows(user: SignedInUser, path: str) -> list[dict[str, str]]:
    reply = await user.get(f"{path}{'&' if '?' in path else '?'}format=csv")
    assert reply.status == 200, reply.body
    return list(csv.DictReader(io.StringIO(unchunked(reply).decode())))


@pytest.fixture
async def console(services: Services, site: Site, payer: PayoutMerchant) -> SignedInUser:
    return await administrator(services, site, f"taxes-{payer.merchant.new.id}@example.com")


async def test_a_payouts_taxes_are_in_the_lists_and_the_statement(
    payer: PayoutMerchant, use_prices: UsePrices, console: SignedInUser
) -> None:
    merchant_id = payer.merchant.new.id
    owner = await member(payer.services, console.site, merchant_id)
    await payer.fund("10000")
    fee = line(PriceTerms(50_00), direction=PriceDirection.PAYOUT)
    use_prices(merchant_id, plan(fee), tax(), STAMP_DUTY)
    trx_id = await payer.pay_out(payout_amount=10_000)
    await payer.check_until(trx_id, "completed")

    [payout] = await _rows(owner, "/production/payouts")
    [same] = await _rows(console, f"/transactions?kind=payout&merchant={merchant_id}")
    assert (payout["fee"], payout["taxes"]) == (same["fee"], same["taxes"]) == ("50.00", "53.75")
    for user, path, fee_title, tax_title in (
        (owner, STATEMENT, "Fee", "Taxes"),
        (console, f"/merchants/{merchant_id}/wallets/production/NGN", "fee", "taxes"),
    ):
        newest, *others = await _rows(user, path)
        assert (newest[fee_title], newest[tax_title]) == ("103.75", "53.75")
        assert {each[tax_title] for each in others} == {""}


async def test_a_payments_taxes_are_in_the_list_and_the_statement(
    shop: Shop, use_prices: UsePrices, console: SignedInUser
) -> None:
    owner = await member(shop.services, console.site, shop.merchant.new.id)
    await shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await shop.fund("100")
    use_prices(shop.merchant.new.id, plan(line(PriceTerms(percent=Decimal(2)))), tax())
    started = await shop.start(payment_amount=1000)
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")

    [payment] = await _rows(owner, "/production/payments")
    assert (payment["commission_fee"], payment["taxes"]) == ("20.00", "1.50")
    lines = await _rows(owner, STATEMENT)
    assert [each["Taxes"] for each in lines if each["Kind"] == "commission"] == ["1.50"]


async def test_without_taxes_no_file_has_the_column(
    payer: PayoutMerchant, console: SignedInUser
) -> None:
    owner = await member(payer.services, console.site, payer.merchant.new.id)
    await payer.pay_out(payout_amount=1_000)
    [payout] = await _rows(owner, "/production/payouts")
    [line_, *_] = await _rows(owner, STATEMENT)
    assert (list(payout)[-1], list(line_)[-1]) == ("updated_at", "Fee")
