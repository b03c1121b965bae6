"""Saved ways in the sandbox, which calls no provider."""

from typing import Any

import pytest

from tests.payments.steps import complete
from tests.saved_ways.steps import Lender
from tests.saved_ways.test_mandates import create


async def saved(tester: Lender, customer: str) -> str:
    started = await tester.start(customer)
    await complete(tester.shop.services, tester.merchant, started.trx_id)
    [way] = await tester.ways(customer)
    assert (way["label"], way["status"]) == ("Visa •••• 4081", "active")
    verified = await tester.shop.verify(started)
    assert verified.json["saved_way"]["id"] == way["id"]
    return str(way["id"])


@pytest.mark.parametrize(
    ("changed", "status", "decline"),
    [
        ({}, "success", None),
        ({"scenario": "success", "payment_amount": 666.61}, "success", None),
        ({"payment_amount": 666.61}, "failed", "declined"),
        ({"payment_amount": 666.62}, "failed", "insufficient_funds"),
        ({"payment_amount": 666.63}, "pending", None),
        ({"payment_amount": 666.64}, "pending", None),
        ({"payment_amount": 666.65}, "failed", "expired_card"),
        ({"scenario": "failed"}, "failed", "declined"),
        ({"scenario": "pending"}, "pending", None),
    ],
)
async def test_the_amount_or_the_scenario_decides(
    tester: Lender, changed: dict[str, Any], status: str, decline: str | None
) -> None:
    customer = await tester.customer()
    way = await saved(tester, customer)
    reply = await tester.charge(customer, way, **changed)
    assert reply.status == 200, reply.body
    assert reply.json["status"] == status
    assert reply.json.get("decline", {}).get("code") == decline
    has_action = changed.get("payment_amount") == 666.64
    assert ("customer_action_url" in reply.json) == has_action


async def test_a_test_customer_confirms_a_charge(tester: Lender) -> None:
    customer = await tester.customer()
    way = await saved(tester, customer)
    reply = await tester.charge(customer, way, payment_amount=666.64)
    url = reply.json["customer_action_url"]
    path = url.split("/checkout/")[1]
    shown = await tester.merchant.site.send("GET", f"/checkout/{path}")
    assert shown.status == 200
    target = f"/checkout/{path}".replace("/sandbox?", "/outcome?")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    await tester.merchant.site.send("POST", target, form, b"outcome=pay")
    assert (await tester.payment(reply.json["trx_id"])).status == "success"


async def test_a_customer_without_the_tick_saves_nothing_in_the_sandbox(tester: Lender) -> None:
    customer = await tester.customer()
    started = await tester.start(customer)
    await tester.choose(started, "paystack-ngn", save=False)
    await complete(tester.shop.services, tester.merchant, started.trx_id)
    assert await tester.ways(customer) == []


async def test_a_mandate_is_active_at_once(tester: Lender) -> None:
    customer = await tester.customer()
    made = await create(tester, customer)
    assert (made.status, made.json["status"]) == (200, "active")
    assert (await tester.charge(customer, made.json["id"])).json["status"] == "success"


async def test_a_pending_test_charge_expires(tester: Lender) -> None:
    customer = await tester.customer()
    way = await saved(tester, customer)
    trx_id = (await tester.charge(customer, way, payment_amount=666.63)).json["trx_id"]
    await tester.db.execute("UPDATE payment SET expires_at = now() WHERE trx_id = $1", trx_id)
    await tester.due(trx_id)
    await tester.until(trx_id, "failed")
