"""A payment is settled exactly once, whatever the order and number of provider reports."""

import asyncio

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.payments import states
from manilla.payments.payment import Charge
from manilla.providers.port import ChargeState, ReportedChargeStatus
from tests.payments import webhooks
from tests.payments.shop import Shop
from tests.support.client import Site
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import long_rows


@pytest.fixture
async def _no_webhooks(simulator: ProviderSimulator) -> None:
    for provider in "abc":
        await simulator.control(f"{provider}/faults", {"webhooks": {"mode": "lost"}})


@pytest.mark.usefixtures("_no_webhooks")
async def test_a_customer_who_returns_before_the_webhook_triggers_a_status_query(
    shop: Shop,
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.services.checkout.look_again(started.trx_id)
    assert await shop.status(started) == "success"
    assert len(await shop.notifications(started)) == 1


@pytest.mark.usefixtures("_no_webhooks")
async def test_a_charge_that_is_paid_in_another_currency_is_reviewed_at_once(shop: Shop) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    paid = ChargeState(ReportedChargeStatus.PAID, Money("USD", charge.amount.minor))
    await states.conclude(shop.services.db, charge, paid)
    assert ("wrong_amount", charge.reference) in await shop.cases()
    assert (await shop.status(started), await shop.balance()) == ("pending", 0)


async def test_a_webhook_about_a_sandbox_payment_credits_nothing(
    shop: Shop, sandbox_shop: Shop, site: Site, db: Database
) -> None:
    started = await sandbox_shop.start()
    before = await sandbox_shop.balance()
    reference = f"{started.trx_id}-1"
    message = webhooks.paid("providera", reference)
    assert (await webhooks.send(site, "providera", message)).status == 200
    await shop.simulator.run_jobs()
    kind = await db.value("SELECT kind FROM operator_case WHERE reference = $1", reference)
    assert kind == "unknown_reference"
    assert await sandbox_shop.status(started) == "pending"
    assert await sandbox_shop.balance() == before


async def test_a_signed_webhook_with_a_wrong_amount_after_the_credit_opens_a_case(
    shop: Shop, site: Site
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    message = webhooks.paid("providera", charge.reference, "999999.99")
    assert (await webhooks.send(site, "providera", message)).status == 200
    await shop.simulator.run_job_now("charge", charge.reference)
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]
    assert await shop.balance() == 100_000


@pytest.mark.parametrize("rounds", [20, *long_rows(1000)])
async def test_payments_settled_three_times_concurrently_are_credited_once(
    shop: Shop, rounds: int
) -> None:
    # The test runs three tasks per charge, which need fewer than the pool's 20 connections.
    at_once = 5
    db, state = shop.services.db, ChargeState(ReportedChargeStatus.PAID, paid=Money("NGN", 100_000))
    for _ in range(rounds // at_once):
        charges = await asyncio.gather(*(_open_charge(shop) for _ in range(at_once)))
        await asyncio.gather(*(states.conclude(db, charge, state) for charge in charges * 3))
    assert await shop.balance() == rounds * 100_000
    counts = """SELECT (SELECT count(*) FROM notification WHERE merchant_id = $1) AS notified,
                       (SELECT count(*) FROM timeline WHERE merchant_id = $1) AS steps"""
    found = await db.record(counts, shop.merchant.new.id)
    assert (found["notified"], found["steps"]) == (rounds, rounds)


async def _open_charge(shop: Shop) -> Charge:
    started = await shop.from_new_ip().start()
    return await shop.choose(started, "providera-ngn")
