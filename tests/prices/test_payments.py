"""Payments with a plan and taxes: from the quote to the ledger and the fields."""

from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.ledger.invariants import check
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.lookup import wallet_statement
from manilla.lookup.wallet_statement import StatementTotals
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.payment_links.paying import AmountNotPossible
from manilla.prices.price import PriceDirection, TaxBase, TaxBearer, TaxCollector, Way
from manilla.refunds import initiate as refunds
from tests.payments.orders import INITIATE, order
from tests.payments.payment_links import customers as links
from tests.payments.shop import Shop, Started
from tests.prices.building import CARD, FREE, line, naira, plan, tax
from tests.prices.conftest import UsePrices
from tests.support.invariants import ALL

FIXED = line(PriceTerms(100_00, Decimal("1.5")))


async def _pay(shop: Shop, method: str = "providera-ngn", **changed: Any) -> Started:
    started = await shop.start(**changed)
    if shop.merchant.environment == "sandbox":
        await shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    else:
        await shop.pay(await shop.choose(started, method))
    await shop.until(started, "success")
    return started


async def _statement(shop: Shop) -> tuple[dict[str, Money], StatementTotals]:
    """Returns the fee of each kind of line, and the totals."""
    about = shop.services.db, Tenant(shop.merchant.new.id, shop.merchant.environment), "NGN"
    found = await wallet_statement.lines(*about, StatementFilter())
    totals = await wallet_statement.totals(*about, StatementFilter())
    assert totals is not None
    return {line.kind: line.fee for line in found.rows if line.fee is not None}, totals


async def _verify_ledger(shop: Shop) -> None:
    assert [each for each in await check(shop.services.db, ALL) if each.count] == []


async def test_a_plan_without_a_commission_has_no_parts(shop: Shop, use_prices: UsePrices) -> None:
    use_prices(shop.merchant.new.id, plan(line(PriceTerms())))

    started = await _pay(shop, payment_amount=1_000)

    assert (started.info["commission_fee"], started.info["commission_parts"]) == (0, [])
    commission = (await shop.verify(started)).json["commission"]
    assert (commission["commission_parts"], commission["commission_trx_id"]) == ([], None)
    assert (await shop.notifications(started))[0]["data"]["commission"] == commission
    await _verify_ledger(shop)


async def test_the_parts_of_a_commission_are_listed(shop: Shop, use_prices: UsePrices) -> None:
    use_prices(shop.merchant.new.id, plan(line(CARD)))
    await shop.set_commission("2", CommissionBearer.CUSTOMER)

    started = await _pay(shop, payment_amount=1_000_000)

    info, parts = (
        started.info,
        [
            {"kind": "percent", "amount": 15000},
            {"kind": "fixed", "amount": 100},
            {"kind": "cap", "amount": -13100},
        ],
    )
    assert (info["api_fee_percent"], info["api_commission_fee"]) == (1.5, 2000)
    assert (info["commission_fee"], info["customer_pays"]) == (2000, 1_002_000)
    assert info["commission_parts"] == parts
    assert "taxes" not in info
    verified = (await shop.verify(started)).json
    assert verified["fee"] == 2000
    assert verified["commission"]["commission_parts"] == parts
    assert (await shop.notifications(started))[0]["data"]["commission"] == verified["commission"]
    assert await shop.account("commission") == 2_000_00
    await _verify_ledger(shop)


@pytest.mark.parametrize("bearer", list(CommissionBearer))
async def test_a_tax_on_top_is_paid_by_who_pays_the_commission(
    shop: Shop, use_prices: UsePrices, bearer: CommissionBearer
) -> None:
    use_prices(shop.merchant.new.id, plan(FIXED), tax())
    await shop.set_commission("0", bearer)
    await shop.fund("500")
    before = await shop.balance()

    started = await _pay(shop, payment_amount=10_000)

    is_customer = bearer is CommissionBearer.CUSTOMER
    assert started.info["customer_pays"] == (10_268.75 if is_customer else 10_000)
    assert await shop.balance() - before == (1_000_000 if is_customer else 973_125)
    assert (await shop.account("commission"), await shop.account("tax:vat")) == (250_00, 18_75)
    commission = (await shop.verify(started)).json["commission"]
    assert commission["taxes"] == [
        {
            "name": "vat",
            "base": "fee",
            "rate": 7.5,
            "amount": 18.75,
            "included": False,
            "borne_by": str(bearer),
            "collected_by": "us",
        }
    ]
    assert commission["customer_paid"] == started.info["customer_pays"]
    await _verify_ledger(shop)


@pytest.mark.parametrize(
    ("terms", "income", "owed"),
    [
        ({"included": True}, 232_56, 17_44),
        ({"borne_by": TaxBearer.PLATFORM}, 231_25, 18_75),
        ({"collected_by": TaxCollector.PROVIDER}, 250_00, 0),
    ],
)
async def test_a_tax_in_the_fee_reduces_the_income(
    shop: Shop, use_prices: UsePrices, terms: dict[str, Any], income: int, owed: int
) -> None:
    use_prices(shop.merchant.new.id, plan(FIXED), tax(**terms))
    await shop.set_commission("0", CommissionBearer.CUSTOMER)

    started = await _pay(shop, payment_amount=10_000)

    assert started.info["customer_pays"] == 10_250
    assert (await shop.account("commission"), await shop.account("tax:vat")) == (income, owed)
    await _verify_ledger(shop)


async def test_a_merchant_can_bear_a_tax_beside_a_commission_of_the_customer(
    shop: Shop, use_prices: UsePrices
) -> None:
    duty = tax(base=TaxBase.TRANSFER, percent=None, fixed_minor=50_00, borne_by=TaxBearer.MERCHANT)
    use_prices(shop.merchant.new.id, plan(FIXED), duty)
    await shop.set_commission("0", CommissionBearer.CUSTOMER)
    await shop.fund("50")
    before = await shop.balance()

    await _pay(shop, payment_amount=10_000)

    assert await shop.balance() - before == 10_000_00 - 50_00
    assert (await shop.account("commission"), await shop.account("tax:vat")) == (250_00, 50_00)
    fees, totals = await _statement(shop)
    assert (fees, totals.fees) == ({"commission": naira("50")}, naira("50"))
    await _verify_ledger(shop)


async def test_the_sandbox_deducts_nothing_from_the_wallet(
    sandbox_shop: Shop, use_prices: UsePrices
) -> None:
    shop = sandbox_shop
    use_prices(shop.merchant.new.id, plan(FIXED), tax())
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    before = await shop.balance()

    started = await _pay(shop, payment_amount=10_000)

    assert started.info["taxes"][0]["amount"] == 18.75
    assert await shop.balance() - before == 1_000_000
    assert (await shop.account("commission"), await shop.account("tax:vat")) == (0, 0)
    await _verify_ledger(shop)


async def test_a_customer_in_the_sandbox_pays_commission_and_tax(
    sandbox_shop: Shop, use_prices: UsePrices
) -> None:
    shop = sandbox_shop
    use_prices(shop.merchant.new.id, plan(FIXED), tax())
    await shop.set_commission("0", CommissionBearer.CUSTOMER)

    await _pay(shop, payment_amount=10_000)

    assert (await shop.account("commission"), await shop.account("tax:vat")) == (250_00, 18_75)
    fees, totals = await _statement(shop)
    assert (fees, totals.fees) == ({}, naira("0"))
    await _verify_ledger(shop)


async def test_the_way_that_the_customer_chooses_decides_what_the_merchant_pays(
    shop: Shop, use_prices: UsePrices
) -> None:
    by_transfer = line(FREE, method="providera_ngn_va")
    use_prices(shop.merchant.new.id, plan(FIXED, by_transfer, line(CARD, way=Way.HOSTED)), tax())
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    await shop.fund("1000")
    before = await shop.balance()

    hosted = await _pay(shop, payment_amount=1_000)

    assert hosted.info["commission_fee"] == 115
    assert (await shop.verify(hosted)).json["fee"] == 15
    assert await shop.balance() - before == 100_000 - 15_00 - 1_13
    assert await shop.account("tax:vat") == 1_13
    await _verify_ledger(shop)


async def test_a_plan_that_changes_before_the_payment_does_not_change_its_price(
    shop: Shop, use_prices: UsePrices
) -> None:
    use_prices(shop.merchant.new.id, plan(FIXED))
    await shop.set_commission("0", CommissionBearer.CUSTOMER)
    started = await shop.start(payment_amount=10_000)

    use_prices(shop.merchant.new.id, plan(line(CARD), version=2), tax())
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")

    assert (await shop.verify(started)).json["commission"]["customer_paid"] == 10_250
    assert (await shop.account("commission"), await shop.account("tax:vat")) == (250_00, 0)
    await _verify_ledger(shop)


async def test_an_amount_below_the_commission_of_the_merchant_is_rejected(
    shop: Shop, use_prices: UsePrices
) -> None:
    use_prices(shop.merchant.new.id, plan(FIXED))
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    await shop.fund("1000")

    reply = await shop.merchant.post(INITIATE, order(payment_amount=101))

    assert (reply.status, reply.json["error_code"]) == (400, "INVALID_AMOUNT")
    assert "commission of ₦101.52" in reply.json["error"]


async def test_a_link_does_not_tell_the_customer_about_the_commission_of_the_merchant(
    shop: Shop, use_prices: UsePrices
) -> None:
    link = await links.new_link(shop, amount_minor=None)
    use_prices(shop.merchant.new.id, plan(line(PriceTerms(100_00))))
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    await shop.fund("500")

    with pytest.raises(AmountNotPossible):
        await links.start(shop, link, "99.99")
    await links.start(shop, link, "100")


@pytest.mark.parametrize("bearer", CommissionBearer)
async def test_a_link_with_an_open_amount_names_the_taxes_that_the_customer_pays(
    shop: Shop, use_prices: UsePrices, bearer: CommissionBearer
) -> None:
    link = await links.new_link(shop, amount_minor=None)
    duty = tax(
        *("duty", 2),
        directions=(PriceDirection.PAYMENT,),
        base=TaxBase.TRANSFER,
        percent=None,
        fixed_minor=50_00,
        threshold_minor=10_000_00,
        borne_by=TaxBearer.CUSTOMER,
    )
    use_prices(shop.merchant.new.id, plan(FIXED), tax(), duty)
    await shop.set_commission("0", bearer)

    page = (await shop.merchant.site.send("GET", link.path)).body.decode()

    is_payer = bearer is CommissionBearer.CUSTOMER
    assert "Duty (₦50.00, from ₦10,000.00)" in page
    assert ("VAT (7.5 % of the fee)" in page) == is_payer
    assert ("A payment fee of" in page) == is_payer


async def test_a_hundred_percent_of_a_payment_can_be_charged(
    shop: Shop, use_prices: UsePrices
) -> None:
    use_prices(shop.merchant.new.id, plan(line(PriceTerms(percent=Decimal(100)))))
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    await shop.fund("1000")
    before = await shop.balance()

    await _pay(shop, payment_amount=1_000)

    assert (await shop.balance() - before, await shop.account("commission")) == (0, 1_000_00)
    await _verify_ledger(shop)


async def test_a_refund_returns_the_commission_if_the_plan_says_so(
    shop: Shop, use_prices: UsePrices
) -> None:
    use_prices(shop.merchant.new.id, plan(FIXED, returns_commission=True), tax())
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    await shop.fund("20000")
    before = await shop.balance()
    started = await _pay(shop, payment_amount=10_000)

    await refunds.start(shop.services.db, started.trx_id, "4000", "a test")
    await shop.until_refunded(started)

    assert (await shop.account("commission"), await shop.account("tax:vat")) == (150_00, 11_25)
    assert await shop.balance() - before == 6_000_00 - 150_00 - 11_25
    await _verify_ledger(shop)


async def test_a_refund_with_the_commission_takes_its_tax_back(
    shop: Shop, use_prices: UsePrices
) -> None:
    use_prices(shop.merchant.new.id, plan(FIXED), tax())
    await shop.set_commission("0", CommissionBearer.CUSTOMER)
    before = await shop.balance()
    started = await _pay(shop, payment_amount=10_000)

    await refunds.start(
        shop.services.db, started.trx_id, None, "a test", on_behalf=True, with_commission=True
    )
    await shop.until_refunded(started)

    assert (await shop.account("commission"), await shop.account("tax:vat")) == (0, 0)
    assert await shop.balance() == before
    await _verify_ledger(shop)


async def test_a_commission_without_plan_and_taxes_has_no_new_fields(shop: Shop) -> None:
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)

    started = await _pay(shop, payment_amount=1_000)

    assert {"commission_parts", "taxes"}.isdisjoint(started.info)
    verified = (await shop.verify(started)).json
    assert {"commission_parts", "taxes"}.isdisjoint(verified["commission"])
    assert (await shop.payment(started)).price is None


async def test_a_refund_of_a_tax_of_the_customer_keeps_the_tax_in_the_commission_of_the_merchant(
    shop: Shop, use_prices: UsePrices
) -> None:
    duty = tax(
        *("duty", 2),
        directions=(PriceDirection.PAYMENT,),
        base=TaxBase.TRANSFER,
        percent=None,
        fixed_minor=50_00,
        borne_by=TaxBearer.CUSTOMER,
    )
    use_prices(shop.merchant.new.id, plan(FIXED), tax(included=True), duty)
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    await shop.fund("20000")
    started = await _pay(shop, payment_amount=10_000)

    await refunds.start(
        shop.services.db, started.trx_id, None, "a test", on_behalf=True, with_commission=True
    )
    await shop.until_refunded(started)

    # The merchant still pays its commission, so the platform still owes the tax in it.
    assert await shop.account("tax:vat") == 17_44
    await _verify_ledger(shop)


async def test_a_refund_of_a_tax_of_the_customer_returns_the_commission_of_the_merchant(
    shop: Shop, use_prices: UsePrices
) -> None:
    on_top = tax(borne_by=TaxBearer.CUSTOMER, directions=(PriceDirection.PAYMENT,))
    use_prices(shop.merchant.new.id, plan(FIXED, returns_commission=True), on_top)
    await shop.set_commission("0", CommissionBearer.MERCHANT)
    await shop.fund("20000")
    before = await shop.balance()
    started = await _pay(shop, payment_amount=10_000)

    await refunds.start(
        shop.services.db, started.trx_id, None, "a test", on_behalf=True, with_commission=True
    )
    await shop.until_refunded(started)

    assert (await shop.account("commission"), await shop.account("tax:vat")) == (0, 0)
    assert await shop.balance() == before
    await _verify_ledger(shop)
