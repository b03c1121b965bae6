"""A merchant cancels an unpaid payment, while its customer may be paying it."""

import asyncio
from typing import Any

import msgspec
import pytest

from manilla.kit import time_limits
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.timeline import steps
from manilla.payments.charges import PaymentClosed
from manilla.services import Services
from manilla.web import plain_events
from tests.payments.shop import HOLD, Shop, Started
from tests.payments.steps import complete, in_environment, new_payment, verify
from tests.support.client import Merchant, Reply, Site, new_merchant

ACCOUNT = "providera_ngn_va"
PAID = (409, "PAYMENT_ALREADY_PAID")


def path(trx_id: str) -> str:
    return f"/api/v1/payments/{trx_id}/cancel"


async def cancel(shop: Shop, started: Started) -> Reply:
    return await shop.merchant.call("POST", path(started.trx_id), b"")


async def late_money(shop: Shop, started: Started) -> str:
    reply = await cancel(shop, started)
    assert reply.status == 200, reply.body
    late: str = reply.json["late_money"]
    return late


async def lose_webhooks(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})


async def test_a_canceled_payment_cannot_be_paid_on_checkout(shop: Shop) -> None:
    started = await shop.start()
    reply = await cancel(shop, started)
    assert (reply.status, reply.json) == (
        200,
        {
            "status": "failed",
            "event": "payment",
            "trx_id": started.trx_id,
            "ref_trx": started.info["ref_trx"],
            "message": "Payment failed or was canceled.",
            "error_code": "PAYMENT_CANCELED",
            "late_money": "none",
        },
    )
    with pytest.raises(PaymentClosed):
        await shop.choose(started, ACCOUNT)
    [notified] = await shop.notifications(started)
    assert (notified["message"], notified["status"]) == ("Payment Canceled", "canceled")
    page = await shop.merchant.site.send("GET", started.target, {})
    assert "This payment was canceled." in page.body.decode()


async def test_the_timeline_tells_who_canceled_the_payment(shop: Shop) -> None:
    by_server, by_customer = await shop.start(), await shop.start()
    await cancel(shop, by_server)
    await shop.services.checkout.cancel(by_customer.trx_id)
    texts = [
        plain_events.detail((await steps(shop.services.db, shop.merchant.new.id, each.trx_id))[-1])
        for each in (by_server, by_customer)
    ]
    assert texts == ["Your server canceled the payment.", "The payment was canceled."]


async def test_a_repeated_cancellation_has_the_same_response_and_no_effect(shop: Shop) -> None:
    started = await shop.start()
    first, *others = await asyncio.gather(*(cancel(shop, started) for _ in range(3)))
    assert [(each.status, each.json) for each in others] == [(200, first.json)] * 2
    assert len(await shop.notifications(started)) == 1


async def test_an_expired_payment_keeps_its_reason(shop: Shop) -> None:
    started = await shop.start()
    await shop.simulator.run_job_now("payment.expire", started.trx_id)
    assert (await cancel(shop, started)).json["error_code"] == "EXPIRED_SESSION"


async def test_money_that_arrives_later_completes_the_payment(shop: Shop) -> None:
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, ACCOUNT)
    assert await late_money(shop, started) == "possible"
    await shop.pay(charge)
    await shop.until(started, "success")
    assert await shop.balance() == 1000_00
    reply = await cancel(shop, started)
    assert (reply.status, reply.code) == PAID


async def test_a_customer_who_has_sent_the_money_is_reported(shop: Shop) -> None:
    started = await shop.start()
    await shop.choose(started, ACCOUNT)
    await shop.services.checkout.report_sent(started.trx_id)
    assert await late_money(shop, started) == "reported"


async def test_a_payment_made_a_moment_ago_is_not_canceled(shop: Shop) -> None:
    await lose_webhooks(shop)
    started = await shop.start()
    await shop.pay(await shop.choose(started, ACCOUNT))
    reply = await cancel(shop, started)
    assert (reply.status, reply.code) == PAID
    assert await shop.status(started) == "success"
    assert [each["status"] for each in await shop.notifications(started)] == ["completed"]


async def test_money_that_is_held_for_review_is_reported(shop: Shop) -> None:
    await shop.change(HOLD)
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, ACCOUNT)
    await shop.pay(charge, amount=400)
    await shop.until_charge(charge, "suspense")
    assert await late_money(shop, started) == "held"


async def test_a_part_that_has_arrived_is_returned_to_the_customer(shop: Shop) -> None:
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, ACCOUNT)
    await shop.pay(charge, amount=400)
    await shop.until_charge(charge, "part")
    assert (await cancel(shop, started)).json["amount_received"] == 400
    await shop.until_refunded(started)
    assert await shop.balance() == 0


async def test_a_provider_that_does_not_respond_does_not_prevent_the_cancellation(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = msgspec.structs.replace(time_limits.current, cancel_seconds=0.3)
    monkeypatch.setattr(time_limits, "current", limits)
    started = await shop.start()
    await shop.choose(started, ACCOUNT)
    hanging = {"call": "charge_status", "fault": "timeout_before", "times": None}
    await shop.simulator.control("a/faults", {"next": [hanging]})
    assert await late_money(shop, started) == "possible"


async def test_a_cancellation_and_a_paying_customer_never_lose_money(shop: Shop) -> None:
    """Whoever is first, the money is credited once, and a merchant never hears `none`."""
    await lose_webhooks(shop)
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        started = await shop.start(payment_amount=1000)
        charge = await shop.choose(started, ACCOUNT)
        before = await shop.balance()

        async def pay(charge: Any = charge, delay: float = delay) -> None:
            await asyncio.sleep(delay)
            await shop.pay(charge)
            await shop.simulator.run_job_now("charge", charge.reference)

        reply, _ = await asyncio.gather(cancel(shop, started), pay())
        await shop.until(started, "success")
        assert (reply.status, reply.code) == PAID or reply.json["late_money"] == "possible"
        assert await shop.balance() == before + 1000_00


async def test_a_customer_who_gets_an_account_is_never_missed(shop: Shop) -> None:
    for delay in (0.0, 0.001, 0.002, 0.005, 0.01, 0.02):
        started = await shop.start()

        async def choose(started: Started = started, delay: float = delay) -> bool:
            await asyncio.sleep(delay)
            try:
                await shop.choose(started, ACCOUNT)
            except PaymentClosed:
                return False
            return True

        late, is_shown = await asyncio.gather(late_money(shop, started), choose())
        assert late == ("possible" if is_shown else "none")


async def test_a_sandbox_payment_can_be_canceled_and_paid_late(
    services: Services, sandbox: Merchant
) -> None:
    merchant = sandbox
    trx_id = await new_payment(merchant)
    assert (await merchant.call("POST", path(trx_id), b"")).json["late_money"] == "none"
    assert (await verify(merchant, trx_id)).json["error_code"] == "PAYMENT_CANCELED"
    await complete(services, merchant, trx_id)
    reply = await merchant.call("POST", path(trx_id), b"")
    assert (reply.status, reply.code) == PAID


async def test_other_payments_are_unknown(
    sandbox: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    merchant = sandbox
    trx_id = await new_payment(merchant)
    other = await new_merchant(site, db, keyring)
    for caller in (other, in_environment(merchant, Environment.PRODUCTION)):
        reply = await caller.call("POST", path(trx_id), b"")
        assert (reply.status, reply.code) == (404, "TRANSACTION_NOT_FOUND")
    assert (await verify(merchant, trx_id)).json["status"] == "pending"
