"""A payment is settled exactly once, whichever reports arrive, in any order and number."""

import asyncio
import itertools

import pytest

from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.payments import states
from manilla.payments.payment import Charge
from manilla.providers.port import ChargeState, ReportedChargeStatus
from tests.client import Site
from tests.payments import webhooks
from tests.payments.shop import METHODS, Shop
from tests.provider_simulator import ProviderSimulator


@pytest.fixture
async def _no_webhooks(simulator: ProviderSimulator) -> None:
    for provider in "abc":
        await simulator.control(f"{provider}/faults", {"webhooks": {"mode": "lost"}})


@pytest.mark.usefixtures("_no_webhooks")
@pytest.mark.parametrize("method", METHODS)
async def test_a_payment_without_a_webhook_is_found_by_a_status_query(
    shop: Shop, method: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, method)
    await shop.pay(charge)
    await shop.simulator.run_jobs()
    assert await shop.status(started) == "pending"
    await shop.simulator.run_job_now("charge", charge.reference)
    assert await shop.status(started) == "success"
    assert await shop.balance() == 100_000


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


@pytest.mark.parametrize("provider", ["providera", "providerb", "providerc"])
@pytest.mark.usefixtures("_no_webhooks")
async def test_a_hundred_copies_of_a_webhook_cause_one_credit(
    shop: Shop, site: Site, provider: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, f"{provider}-ngn")
    await shop.pay(charge)
    copies = [
        webhooks.send(site, provider, webhooks.paid(provider, charge.reference) | {"n": n % 10})
        for n in range(100)
    ]
    replies = await asyncio.gather(*copies)
    assert {reply.status for reply in replies} == {200}
    await shop.until(started, "success")
    await shop.simulator.run_jobs()
    assert await shop.balance() == 100_000
    assert len(await shop.notifications(started)) == 1
    assert await shop.cases() == []


@pytest.mark.usefixtures("_no_webhooks")
async def test_forged_webhooks_are_rejected_and_not_stored(
    shop: Shop, site: Site, db: Database
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    message = webhooks.paid("providera", charge.reference)
    forged = [
        await webhooks.send(site, "providera", message, secret="guess"),
        await webhooks.send(site, "providera", message, signed=b"other bytes"),
        await webhooks.send(site, "providera", message, header="x-no-signature"),
        await webhooks.send(site, "providerb", message, secret="sim_a_webhook"),
    ]
    assert [(reply.status, reply.code) for reply in forged] == [(401, "INVALID_SIGNATURE")] * 4
    stored = await db.value("SELECT count(*) FROM webhook WHERE reference = $1", charge.reference)
    assert stored == 0
    await shop.simulator.run_jobs()
    assert await shop.status(started) == "pending"


@pytest.mark.parametrize(
    ("amount", "currency"),
    [("999.99", "NGN"), ("1000.01", "NGN"), ("1000.00", "USD"), ("1", "NGN")],
)
@pytest.mark.parametrize("provider", ["providera", "providerb", "providerc"])
@pytest.mark.usefixtures("_no_webhooks")
async def test_a_signed_webhook_with_a_wrong_amount_is_held_for_review(
    shop: Shop, site: Site, provider: str, amount: str, currency: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, f"{provider}-ngn")
    await shop.pay(charge)
    message = webhooks.paid(provider, charge.reference, amount, currency)
    assert (await webhooks.send(site, provider, message)).status == 200
    await shop.until_charge(charge, "suspense")
    assert await shop.balance() == 0
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]
    assert await shop.account("suspense") == 100_000


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


async def test_a_webhook_that_arrives_before_we_save_is_matched_by_reference(
    shop: Shop, db: Database
) -> None:
    """The webhook arrives before we have saved the provider's response to the request."""
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await db.execute("UPDATE charge SET status = 'opening' WHERE reference = $1", charge.reference)
    await shop.pay(charge)
    await shop.until(started, "success")
    assert await shop.balance() == 100_000


def _states(amount: Money) -> dict[str, ChargeState]:
    return {
        "pending": ChargeState(ReportedChargeStatus.PENDING),
        "failed": ChargeState(ReportedChargeStatus.FAILED, reason="declined"),
        "paid": ChargeState(ReportedChargeStatus.PAID, paid=amount),
    }


@pytest.mark.parametrize("order", list(itertools.permutations(["pending", "paid", "failed"])))
async def test_reports_about_two_charges_in_any_order_end_the_same(
    shop: Shop, order: tuple[str, ...]
) -> None:
    """The first charge fails and the second is paid; their webhooks arrive in any order."""
    started = await shop.start()
    first = await shop.choose(started, "providera-ngn")
    second = await shop.choose(started, "providerc-ngn")
    news = _states(second.amount)
    for name in order:
        charge = first if name == "failed" else second
        await states.conclude(shop.services.db, charge, news[name])
    assert await shop.status(started) == "success"
    assert await shop.balance() == 100_000
    assert len(await shop.notifications(started)) == 1
    assert await shop.cases() == []


@pytest.mark.usefixtures("_no_webhooks")
async def test_webhook_return_and_reconciliation_together_cause_one_transition(
    shop: Shop, site: Site
) -> None:
    for _ in range(10):
        started = await shop.start()
        charge = await shop.choose(started, "providera-ngn")
        await shop.pay(charge)
        await asyncio.gather(
            webhooks.send(site, "providera", webhooks.paid("providera", charge.reference)),
            shop.services.checkout.look_again(started.trx_id),
            shop.simulator.run_job_now("charge", charge.reference),
            shop.services.checkout.look_again(started.trx_id),
        )
        await shop.simulator.run_jobs()
        assert len(await shop.notifications(started)) == 1
    assert await shop.balance() == 10 * 100_000


async def test_a_thousand_payments_settled_three_times_concurrently_are_credited_once(
    shop: Shop,
) -> None:
    rounds, at_once = 1000, 20
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
