"""Splits of payments with a price plan and taxes: shares, commission and taxes are what is paid."""

from decimal import Decimal
from typing import Any

import pytest

from manilla.disputes import states
from manilla.kit.price import PriceTerms
from manilla.merchants.merchants import CommissionBearer
from manilla.platform.settings import PlatformSettings
from manilla.prices.price import PriceDirection, TaxBase, TaxBearer, TaxRule, Way
from manilla.refunds import initiate as refunds
from tests.disputes.steps import LOST, NEEDS_RESPONSE, WON
from tests.payments.orders import INITIATE, order
from tests.prices.building import FREE, line, plan, tax
from tests.prices.conftest import UsePrices
from tests.splits.steps import Splits, fixed, percent

FIXED = line(PriceTerms(100_00, Decimal("1.5")))
BEARERS = [CommissionBearer.CUSTOMER, CommissionBearer.MERCHANT]


def duty(bearer: TaxBearer) -> TaxRule:
    return tax(
        *("duty", 2),
        directions=(PriceDirection.PAYMENT,),
        base=TaxBase.TRANSFER,
        percent=None,
        fixed_minor=50_00,
        borne_by=bearer,
    )


async def price(
    splits: Splits,
    use_prices: UsePrices,
    bearer: CommissionBearer,
    *taxes: TaxRule,
    **terms: Any,
) -> None:
    """Charges 100 and 1.5 %, which is 250 of 10 000, and the taxes."""
    use_prices(splits.owner, plan(FIXED, **terms), *taxes)
    await splits.shop.set_commission("0", bearer)


def shares_of(info: dict[str, Any]) -> dict[str, Decimal]:
    return {each["receiver"]: Decimal(str(each["amount"])) for each in info["split"]["shares"]}


def _paid(info: dict[str, Any]) -> Decimal:
    """Adds up what the contract says: shares, commission, and the taxes on top of it."""
    taxes = [each["amount"] for each in info["taxes"] if not each["included"]]
    costs = [Decimal(str(each)) for each in (info["commission_fee"], *taxes)]
    return sum((*shares_of(info).values(), *costs), Decimal(0))


@pytest.mark.parametrize("bearer", BEARERS)
@pytest.mark.parametrize("fees", ["owner", "proportional", "receiver"])
@pytest.mark.parametrize("is_included", [False, True])
@pytest.mark.parametrize("duty_of", [TaxBearer.CUSTOMER, TaxBearer.MERCHANT])
async def test_shares_commission_and_taxes_are_what_is_paid(
    splits: Splits,
    use_prices: UsePrices,
    bearer: CommissionBearer,
    fees: str,
    is_included: bool,
    duty_of: TaxBearer,
) -> None:
    await price(splits, use_prices, bearer, tax(included=is_included), duty(duty_of))
    await splits.shop.fund("1000")
    first, second = await splits.receiver(), await splits.receiver("Second")
    bears = str(second) if fees == "receiver" else fees

    paid = await splits.pay(
        {"receivers": [percent(first, 33.3333), percent(second, 10)], "fees": bears}, 10_000.01
    )

    info = paid.started.info
    assert _paid(info) == Decimal(str(info["customer_pays"]))
    shares = shares_of(info)
    found = {
        "owner": await splits.balance() - 1000,
        str(first): await splits.balance(first),
        str(second): await splits.balance(second),
    }
    assert {name: Decimal(str(round(each, 2))) for name, each in found.items()} == shares
    # Independently: what the merchant bears is 250, the tax on it unless the 250 contain it, and
    # the duty, each unless the customer bears it.
    is_borne = bearer is CommissionBearer.MERCHANT
    costs = Decimal("250.00") if is_borne else Decimal(0)
    costs += Decimal("18.75") if is_borne and not is_included else 0
    costs += 50 if duty_of is TaxBearer.MERCHANT else 0
    parts = {str(first): Decimal("3333.33"), str(second): Decimal("1000.00")}
    if fees == "receiver":
        parts[str(second)] -= costs
    if fees != "proportional":
        assert {name: shares[name] for name in parts} == parts
    else:
        left = 1 - costs / Decimal("10000.01")
        for name, part in parts.items():
            assert 0 <= part * left - shares[name] < Decimal("0.01")


@pytest.mark.parametrize("fees", ["owner", "proportional", "receiver"])
async def test_a_refund_that_returns_the_commission_leaves_nothing_to_anybody(
    splits: Splits, use_prices: UsePrices, fees: str
) -> None:
    await price(splits, use_prices, CommissionBearer.MERCHANT, tax(), returns_commission=True)
    await splits.shop.fund("20000")
    receiver = await splits.receiver()
    bears = str(receiver) if fees == "receiver" else fees
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "fees": bears}, 10_000)

    await splits.refund(paid, "4000")
    await splits.refund(paid)
    await splits.shop.until_refunded(paid.started)

    assert (await splits.balance() - 20_000, await splits.balance(receiver)) == (0, 0)
    assert await splits.shop.account("commission") == 0
    assert await splits.shop.account("tax:vat") == 0


async def test_a_refund_with_the_commission_of_the_customer_takes_the_shares_once(
    splits: Splits, use_prices: UsePrices
) -> None:
    await price(splits, use_prices, CommissionBearer.CUSTOMER, tax())
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]}, 10_000)

    await refunds.start(
        *(splits.db, paid.started.trx_id, None, "a test"), on_behalf=True, with_commission=True
    )
    await splits.shop.until_refunded(paid.started)

    assert (await splits.balance(), await splits.balance(receiver)) == (0, 0)
    assert await splits.shop.account("commission") == 0


@pytest.mark.parametrize("outcome", [WON, LOST])
@pytest.mark.parametrize("bearer", BEARERS)
async def test_a_dispute_of_all_that_was_paid_takes_all_shares(
    splits: Splits, use_prices: UsePrices, outcome: Any, bearer: CommissionBearer
) -> None:
    await price(splits, use_prices, bearer, tax(), duty(TaxBearer.MERCHANT))
    await splits.shop.fund("1000")
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "fees": "proportional"}, 10_000)
    before = await splits.balance(), await splits.balance(receiver)
    everything = str(paid.started.info["customer_pays"])

    for status in (NEEDS_RESPONSE, outcome):
        reported = paid.reported(status, everything)
        found = await states.report(splits.db, PlatformSettings(), "providera", reported)
        assert found.dispute is not None, found.problem

    after = await splits.balance(), await splits.balance(receiver)
    if outcome is WON:
        assert after == before
        return
    assert after[1] == 0
    assert await splits.owed(receiver) == 0


async def test_a_split_payment_costs_the_same_by_every_way(
    splits: Splits, use_prices: UsePrices
) -> None:
    """Its shares are exact from the start, so the way that the customer chooses changes nothing."""
    by_transfer = line(FREE, method="providera_ngn_va")
    hosted = line(PriceTerms(10_00), way=Way.HOSTED)
    use_prices(splits.owner, plan(FIXED, by_transfer, hosted), tax())
    await splits.shop.set_commission("0", CommissionBearer.MERCHANT)
    await splits.shop.fund("1000")
    receiver = await splits.receiver()
    split = {"receivers": [percent(receiver, 30)]}

    for method in ("providera_ngn_va", "providera-ngn"):
        before = await splits.balance()
        started = await splits.shop.start(payment_amount=1000, split=split)
        await splits.shop.pay(await splits.shop.choose(started, method))
        await splits.shop.until(started, "success")
        assert started.info["commission_fee"] == 115
        assert (await splits.shop.verify(started)).json["fee"] == 115
        assert round(await splits.balance() - before, 2) == 700 - 115 - 8.63


async def test_parts_above_what_taxes_leave_are_rejected(
    splits: Splits, use_prices: UsePrices
) -> None:
    await price(splits, use_prices, CommissionBearer.CUSTOMER, duty(TaxBearer.MERCHANT))
    await splits.shop.fund("1000")
    receiver = await splits.receiver()
    errors = await splits.errors({"receivers": [fixed(receiver, 950.01)]})
    assert "larger than what remains" in errors["receivers"]
    assert (await splits.initiate({"receivers": [fixed(receiver, 950)]})).status == 200
    rest = {"receivers": [{"merchant_id": receiver}], "rest": receiver}
    assert "no share" in (await splits.errors(rest))["fees"]


async def test_an_amount_below_its_commission_is_rejected_as_without_a_split(
    splits: Splits, use_prices: UsePrices
) -> None:
    await price(splits, use_prices, CommissionBearer.MERCHANT)
    await splits.shop.fund("1000")
    split = {"receivers": [percent(await splits.receiver(), 30)]}
    replies = [
        await splits.shop.merchant.post(INITIATE, order(payment_amount=101, **given))
        for given in ({}, {"split": split})
    ]
    assert [(each.status, each.code) for each in replies] == [(400, "INVALID_AMOUNT")] * 2
