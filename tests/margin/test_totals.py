"""The daily totals equal the ledger, and name the way and the provider of each fee."""

import asyncio
from typing import Any

import pytest

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.ledger import provider_funds
from manilla.ledger.provider_funds import SettlementKind
from manilla.margin import figures, totals
from manilla.margin.figures import MarginGroup
from manilla.merchants.merchants import CommissionBearer
from manilla.payments.payment import ChargeStatus
from manilla.platform.settings import PlatformSettings
from manilla.prices import store
from manilla.prices.price import PriceDirection
from manilla.prices.store import OWN
from manilla.proofs import chain
from tests.disputes.steps import LOST, Disputes, naira
from tests.margin.trading import WAY, Trading, today
from tests.prices.building import line, plan


@pytest.mark.parametrize("bearer", CommissionBearer)
async def test_a_payments_commission_and_provider_fee_are_at_its_way(
    trading: Trading, bearer: CommissionBearer
) -> None:
    await trading.charge("1.5", bearer)
    _, charge = await trading.pay(1000)
    assert (await trading.shop.charge(charge)).status is ChargeStatus.PAID
    [row] = await trading.rows(MarginGroup.DETAIL)
    assert (row.kind, row.method_code, row.provider) == ("payment", WAY, "providera")
    assert row.day == today()
    assert (row.transactions, row.earned_minor) == (1, 1500)
    assert row.paid_minor > 0
    assert (row.earned_minor, row.paid_minor) == await trading.in_ledger()


async def test_a_payouts_fee_gets_its_provider_when_it_is_delivered(trading: Trading) -> None:
    trx_id = await trading.payer.pay_out(payout_amount=1000)
    [open_row] = await trading.rows(MarginGroup.DETAIL)
    assert (open_row.provider, open_row.transactions, open_row.earned_minor) == ("", 0, 5000)
    await trading.payer.check_until(trx_id, "completed")
    [row] = await trading.rows(MarginGroup.DETAIL)
    assert (row.provider, row.transactions, row.earned_minor) == ("providera", 1, 5000)
    assert (row.earned_minor, row.paid_minor) == await trading.in_ledger()
    assert row.paid_minor > 0


async def test_a_returned_payout_returns_fee_and_provider_fee(trading: Trading) -> None:
    trx_id = await trading.pay_out(1000)
    await trading.count()
    await trading.payer.settle("a", trx_id, "reversed")
    await trading.payer.check_until(trx_id, "failed")
    assert await trading.total() == (0, 0, 0)
    assert await trading.in_ledger() == (0, 0)


async def test_a_failed_payout_earns_nothing(trading: Trading) -> None:
    await trading.payer.simulator.control("a/faults", {"settle_seconds": 3600})
    trx_id = await trading.payer.pay_out(payout_amount=1000)
    await trading.payer.simulator.run_jobs()
    await trading.count()
    await trading.payer.settle("a", trx_id, "failed")
    await trading.payer.check_until(trx_id, "failed")
    assert await trading.rows(MarginGroup.DETAIL) == []


async def test_concurrent_workers_add_each_posting_once(
    trading: Trading, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trading.charge("1.5", CommissionBearer.CUSTOMER)
    await trading.pay()
    await trading.pay_out()
    await chain.extend(trading.db)
    monkeypatch.setattr(totals, "IDS_MAX", 2)
    await asyncio.gather(*(totals.add_final_postings(trading.db) for _ in range(3)))
    assert (await trading.total())[:2] == await trading.in_ledger()
    assert await totals.count_waiting(trading.db) == 0


async def test_the_totals_of_the_sandbox_are_separate(trading: Trading) -> None:
    await trading.charge("1.5", CommissionBearer.CUSTOMER)
    await trading.pay()
    assert await trading.total(environment=Environment.SANDBOX) == (0, 0, 0)


async def test_a_dispute_fee_that_the_merchant_pays_is_passed_on(trading: Trading) -> None:
    await trading.charge("1.5", CommissionBearer.CUSTOMER)
    disputes = Disputes(trading.shop)
    paid = await disputes.pay()
    before = await trading.total()
    lost = paid.reported(LOST, "1000", fee=naira("500"))
    assert (await disputes.report(lost)).dispute is not None
    earned, taken, passed = await trading.total()
    assert (earned, taken, passed) == (before[0], before[1], 50_000)
    assert (earned, taken) == await trading.in_ledger()
    assert {row.method_code for row in await trading.rows(MarginGroup.WAY)} == {WAY}


async def test_a_plans_dispute_fee_is_earned_and_the_providers_is_paid(trading: Trading) -> None:
    fee = line(PriceTerms(fixed_minor=300_00), direction=PriceDirection.DISPUTE)
    async with trading.db.transaction() as connection:
        version = plan(fee, plan=OWN, merchant_id=trading.merchant_id)
        await store.add_version(connection, version, "ada")
    disputes = Disputes(trading.shop)
    paid = await disputes.pay()
    before = await trading.total()
    await disputes.report(paid.reported(LOST, "1000", fee=naira("500")))
    earned, taken, passed = await trading.total()
    assert (earned - before[0], taken - before[1], passed) == (300_00, 500_00, 0)
    assert (earned, taken) == await trading.in_ledger()


async def test_a_fee_that_an_administrator_records_has_no_merchant_or_way(trading: Trading) -> None:
    fee = Money.of("70", "NGN")
    await provider_funds.settle(trading.db, SettlementKind.FEE, "providerb", fee, "monthly")
    wanted = {"merchant_id": 0, "provider": "providerb"}
    before = await trading.total(**wanted)
    await provider_funds.settle(trading.db, SettlementKind.FEE_RETURNED, "providerb", fee, "back")
    after = await trading.total(**wanted)
    assert (before[1] - after[1], before[0] - after[0]) == (7000, 0)


async def test_ways_that_lose_money_are_counted_if_the_alert_is_set(trading: Trading) -> None:
    async def counted(**changed: Any) -> int:
        return await figures.count_losing_ways(trading.db, PlatformSettings(**changed))

    await trading.charge("0", CommissionBearer.MERCHANT)
    await trading.pay(100_000)
    await trading.count()
    assert await counted() == 0
    assert await counted(margin_alert_days=1, margin_alert_transactions=1) >= 1
    assert await counted(margin_alert_days=1, margin_alert_transactions=1_000_000) == 0
