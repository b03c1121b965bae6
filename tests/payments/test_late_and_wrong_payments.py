"""Late, duplicate, partial or excess payments are credited or held in the suspense account."""

from typing import Any

import pytest

from manilla.payments import states
from manilla.payments.charges import GatewayRefused
from manilla.payments.payment import PaymentErrorCode
from manilla.payments.states import PaymentEvent
from tests.payments.shop import HOLD, Shop, Started
from tests.support.rows import pairs

ACCOUNT = "providera_ngn_va"


async def _expire(shop: Shop, started: Started) -> None:
    await shop.simulator.run_job_now("payment.expire", started.trx_id)


async def test_an_unpaid_payment_expires_automatically(shop: Shop) -> None:
    started = await shop.start()
    await _expire(shop, started)
    reply = (await shop.verify(started)).json
    assert reply == {
        "status": "failed",
        "event": "payment",
        "trx_id": started.trx_id,
        "ref_trx": started.info["ref_trx"],
        "message": "Payment failed or was canceled.",
        "error_code": "EXPIRED_SESSION",
    }
    [notified] = await shop.notifications(started)
    assert (notified["status"], notified["message"], notified["error_code"]) == (
        "failed",
        "Payment Failed",
        "EXPIRED_SESSION",
    )


async def test_a_payment_paid_at_the_last_moment_does_not_expire(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    started = await shop.start()
    charge = await shop.choose(started, ACCOUNT)
    await shop.pay(charge)
    await _expire(shop, started)
    assert await shop.status(started) == "success"
    assert len(await shop.notifications(started)) == 1


@pytest.mark.parametrize(
    ("method", "decline"),
    pairs(
        ["providera-ngn", "providerb-ngn", "providerc-ngn"],
        [("insufficient_funds", "INSUFFICIENT_FUNDS"), ("declined", "PAYMENT_DECLINED")],
    ),
)
async def test_a_declined_charge_is_the_reason_when_the_payment_expires(
    shop: Shop, method: str, decline: tuple[str, str]
) -> None:
    reason, code = decline
    started = await shop.start()
    charge = await shop.choose(started, method)
    await shop.pay(charge, outcome="failed", reason=reason)
    # Provider B sends no webhook about a failed charge, so the worker queries the charge's status.
    await shop.simulator.run_job_now("charge", charge.reference)
    await shop.until_charge(charge, "failed")
    assert await shop.status(started) == "pending"
    assert await shop.notifications(started) == []
    await _expire(shop, started)
    assert (await shop.verify(started)).json["error_code"] == code
    [notified] = await shop.notifications(started)
    assert (notified["status"], notified["error_code"]) == ("failed", code)


async def test_the_last_decline_is_the_reason(shop: Shop) -> None:
    started = await shop.start()
    for method, reason in (("providera-ngn", "insufficient_funds"), ("providerc-ngn", "declined")):
        charge = await shop.choose(started, method)
        await shop.pay(charge, outcome="failed", reason=reason)
        await shop.until_charge(charge, "failed")
    await _expire(shop, started)
    assert (await shop.verify(started)).json["error_code"] == "PAYMENT_DECLINED"


async def test_a_decline_found_at_expiry_is_the_reason(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge, outcome="failed", reason="insufficient_funds")
    await _expire(shop, started)
    assert (await shop.verify(started)).json["error_code"] == "INSUFFICIENT_FUNDS"


async def test_a_charge_the_provider_could_not_open_is_not_a_decline(shop: Shop) -> None:
    refusal = {"call": "charge", "fault": "refuse", "status": 400, "message": "Declined"}
    await shop.simulator.control("a/faults", {"next": [refusal]})
    started = await shop.start()
    with pytest.raises(GatewayRefused):
        await shop.choose(started, "providera-ngn")
    await _expire(shop, started)
    assert (await shop.verify(started)).json["error_code"] == "EXPIRED_SESSION"


async def test_canceling_after_a_decline_counts_as_canceled(shop: Shop) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge, outcome="failed", reason="declined")
    await shop.until_charge(charge, "failed")
    await shop.services.checkout.cancel(started.trx_id)
    assert (await shop.verify(started)).json["error_code"] == "PAYMENT_CANCELED"


async def test_a_customer_pays_with_another_method_after_a_decline(shop: Shop) -> None:
    started = await shop.start()
    first = await shop.choose(started, "providera-ngn")
    await shop.pay(first, outcome="failed", reason="declined")
    await shop.until_charge(first, "failed")
    second = await shop.choose(started, "providera-ngn")
    assert second.reference == f"{started.trx_id}-2"
    await shop.pay(second)
    await shop.until(started, "success")
    [notified] = await shop.notifications(started)
    assert notified["status"] == "completed"
    assert await shop.cases() == []


async def test_a_declined_charge_does_not_affect_another_charge_of_the_payment(shop: Shop) -> None:
    started = await shop.start()
    first = await shop.choose(started, "providera-ngn")
    second = await shop.choose(started, "providerc-ngn")
    await shop.pay(first, outcome="failed")
    await shop.until_charge(first, "failed")
    assert await shop.status(started) == "pending"
    await shop.pay(second)
    await shop.until(started, "success")


@pytest.mark.parametrize("paid", ["999.99", "1000.01"])
async def test_another_amount_than_requested_is_held_and_not_credited(
    shop: Shop, paid: str
) -> None:
    await shop.change(HOLD)
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, ACCOUNT)
    await shop.pay(charge, amount=float(paid))
    await shop.until_charge(charge, "suspense")
    assert await shop.status(started) == "pending"
    assert await shop.balance() == 0
    assert await shop.cases() == [("wrong_amount", charge.reference)]


EVENTS: dict[PaymentEvent, PaymentErrorCode] = {
    PaymentEvent.DECLINED: PaymentErrorCode.PAYMENT_DECLINED,
    PaymentEvent.CANCELED: PaymentErrorCode.PAYMENT_CANCELED,
    PaymentEvent.EXPIRED: PaymentErrorCode.EXPIRED_SESSION,
}


@pytest.mark.parametrize("event", EVENTS)
async def test_a_paid_payment_never_becomes_failed(shop: Shop, event: PaymentEvent) -> None:
    started = await shop.start()
    charge = await shop.choose(started, ACCOUNT)
    await shop.pay(charge)
    await shop.until(started, "success")
    before = await shop.payment(started)
    end: Any = states.give_up(
        shop.services.db, before.merchant_id, started.trx_id, event, EVENTS[event]
    )
    assert await end is False
    assert await shop.payment(started) == before
