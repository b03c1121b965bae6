"""The WooCommerce plugin's core: an order is completed once and refunded once, whatever is lost."""

import asyncio
from typing import Any

import pytest

from tests.woocommerce.shop import WooShop

pytestmark = pytest.mark.long


async def started(shop: WooShop, order: int = 7) -> str:
    """Returns the trx_id of a new payment for a new order."""
    await shop.order(order)
    url: str = await shop.pay(order)
    return url.partition("/checkout/")[2].partition("?")[0]


async def paid(shop: WooShop, order: int = 7) -> str:
    trx_id = await started(shop, order)
    await shop.complete(trx_id)
    await shop.ask("return", order)
    assert (await shop.shown(order))["completed"] == 1
    return trx_id


async def refunds(shop: WooShop) -> list[tuple[str, float]]:
    return [(each["status"], each["amount"]) for each in await shop.every("/api/v1/refunds")]


async def records(shop: WooShop) -> list[str]:
    return [each["amount"] for each in (await shop.show())["records"]]


async def test_a_return_without_a_payment_completes_nothing(shop: WooShop) -> None:
    await started(shop)
    await shop.ask("return", 7)
    assert (await shop.shown(7))["status"] == "pending"


async def test_all_reports_of_one_payment_complete_the_order_once(shop: WooShop) -> None:
    trx_id = await started(shop)
    await shop.complete(trx_id)
    [event] = [each for each in await shop.events() if each["type"] == "payment.success"]
    calls = [shop.notify(event) for _ in range(4)] + [shop.ask("return", 7) for _ in range(4)]
    await asyncio.gather(*calls, shop.ask("reconcile"))
    order = await shop.shown(7)
    assert (order["status"], order["trx_id"], order["completed"]) == ("processing", trx_id, 1)
    assert await shop.noted(7) == ["PaidInSandbox"]


async def test_a_second_click_gets_the_same_link(shop: WooShop) -> None:
    await shop.order(7)
    first, *others = await asyncio.gather(*(shop.pay(7) for _ in range(3)))
    assert others == [first, first]
    assert len(await shop.every("/api/v1/payments")) == 1


async def test_another_total_ends_the_earlier_link(shop: WooShop) -> None:
    await started(shop)
    await shop.ask("change", 7, total="900.00")
    await shop.pay(7)
    found = await shop.every("/api/v1/payments")
    assert [each["status"] for each in found] == ["pending", "failed"]


@pytest.mark.parametrize("fault", ["lost", "unsent", "die"])
async def test_a_lost_answer_does_not_start_a_second_payment(shop: WooShop, fault: str) -> None:
    await shop.order(7)
    assert await shop.pay(7, fault={fault: 1}) in ({"unknown"}, None)
    assert isinstance(await shop.pay(7), str)
    assert len(await shop.every("/api/v1/payments")) == 1


@pytest.mark.parametrize("write", [1, 2, 3])
async def test_an_end_of_the_process_completes_the_order_once(shop: WooShop, write: int) -> None:
    trx_id = await started(shop)
    await shop.complete(trx_id)
    assert await shop.ask("return", 7, fault={"die_after_write": write}) is None
    await shop.ask("return", 7)
    order = await shop.shown(7)
    assert (order["status"], order["completed"]) == ("processing", 1)
    assert "PaidTwice" not in await shop.noted(7)
    assert [each["state"] for each in (await shop.show())["attempts"]] == ["paid"]


async def test_a_payment_whose_answer_never_came_is_found(shop: WooShop) -> None:
    await shop.order(7)
    await shop.pay(7, fault={"lost": 1})
    [payment] = await shop.every("/api/v1/payments")
    await shop.complete(payment["trx_id"])
    await shop.skip(3600)
    await shop.ask("reconcile")
    assert (await shop.shown(7))["completed"] == 1


async def test_late_money_completes_a_canceled_order(shop: WooShop) -> None:
    trx_id = await started(shop)
    await shop.complete(trx_id)
    await shop.ask("cancel", 7)
    assert (await shop.shown(7))["status"] == "processing"
    assert await shop.noted(7) == ["PaidInSandbox", "PaidAfterCancellation"]


async def test_an_expired_link_fails_the_order_and_the_next_click_pays_it(shop: WooShop) -> None:
    trx_id = await started(shop)
    await shop.expire(trx_id)
    await shop.ask("return", 7)
    assert (await shop.shown(7))["status"] == "failed"
    second = str(await shop.pay(7)).partition("/checkout/")[2].partition("?")[0]
    await shop.complete(second)
    await shop.ask("return", 7)
    assert (await shop.shown(7))["trx_id"] == second


async def test_unpaid_orders_are_kept_while_they_can_be_paid(shop: WooShop) -> None:
    trx_id = await started(shop)
    assert await shop.ask("may_cancel", 7) is False
    await shop.expire(trx_id)
    assert await shop.ask("may_cancel", 7) is True


async def test_a_total_that_changed_after_payment_needs_a_review(shop: WooShop) -> None:
    trx_id = await started(shop)
    await shop.complete(trx_id)
    await shop.ask("change", 7, total="2000.00")
    await shop.ask("return", 7)
    assert (await shop.shown(7))["status"] == "on-hold"
    assert await shop.noted(7) == ["TotalChanged"]


async def test_events_of_other_programs_are_ignored(shop: WooShop) -> None:
    await paid(shop)
    [event] = [each for each in await shop.events() if each["type"] == "payment.success"]
    other = {**event, "body": event["body"].replace("shop-7-", "other-7-").replace("TXN", "TXX")}
    assert await shop.notify(other) == "ignored"


async def test_a_refund_is_sent_once_although_its_answer_is_lost(shop: WooShop) -> None:
    await paid(shop)
    asked = await shop.ask("refund", 7, amount="500.50", fault={"lost": 1})
    assert (asked, await records(shop)) == ({"unknown"}, [])
    assert isinstance(await shop.ask("refund", 7, amount="500.50"), str)
    assert await refunds(shop) == [("pending", 500.5)]
    assert await records(shop) == ["500.50"]


async def test_the_same_amount_is_not_refunded_again_at_once(shop: WooShop) -> None:
    await paid(shop)
    assert isinstance(await shop.ask("refund", 7, amount="500.50"), str)
    assert await shop.ask("refund", 7, amount="500.50", seen=1) == {"changed"}
    await shop.skip(61)
    assert isinstance(await shop.ask("refund", 7, amount="500.50", seen=1), str)
    assert len(await refunds(shop)) == 2


async def test_no_other_refund_is_sent_while_one_is_unknown(shop: WooShop) -> None:
    await paid(shop)
    await shop.ask("refund", 7, amount="500.50", fault={"lost": 1})
    assert await shop.ask("refund", 7, amount="100.00") == {"unknown"}
    assert len(await refunds(shop)) == 1


async def test_the_reconciler_records_a_refund_whose_answer_was_lost(shop: WooShop) -> None:
    await paid(shop)
    await shop.ask("refund", 7, amount="500.50", fault={"lost": 1})
    await shop.end_refunds()
    await shop.skip(3600)
    await asyncio.gather(*(shop.ask("reconcile") for _ in range(3)))
    assert [float(each) for each in await records(shop)] == [500.5]
    assert await refunds(shop) == [("success", 500.5)]


async def test_a_refund_that_never_arrived_is_closed(shop: WooShop) -> None:
    await paid(shop)
    await shop.ask("refund", 7, amount="500.50", fault={"unsent": 1})
    await shop.skip(3600)
    await shop.ask("reconcile")
    assert (await shop.noted(7))[-1] == "RefundNeverSent"
    assert isinstance(await shop.ask("refund", 7, amount="100.00"), str)
    assert await refunds(shop) == [("pending", 100.0)]


async def test_a_refund_made_in_manilla_is_recorded_once(shop: WooShop) -> None:
    trx_id = await paid(shop)
    await shop.refund_in_dashboard(trx_id, "300")
    await shop.end_refunds()
    events = [each for each in await shop.events() if each["type"].startswith("refund.")]
    assert events
    await asyncio.gather(*(shop.notify(each) for each in events), shop.ask("reconcile"))
    assert [float(each) for each in await records(shop)] == [300]


async def test_a_second_payment_is_reported_and_can_be_refunded_once(shop: WooShop) -> None:
    first = await started(shop)
    await shop.ask("change", 7, total="900.00")
    second = str(await shop.pay(7)).partition("/checkout/")[2].partition("?")[0]
    await shop.complete(second)
    await shop.ask("return", 7)
    await _pay_late(shop, first)
    await shop.skip(3600)
    await shop.ask("reconcile")
    order = await shop.shown(7)
    assert (order["completed"], order["trx_id"]) == (1, second)
    assert "PaidTwice" in await shop.noted(7)
    answers = await asyncio.gather(*(shop.ask("refund_extra", 7, trx_id=first) for _ in range(3)))
    assert sorted(isinstance(each, str) for each in answers) == [False, False, True]
    assert await refunds(shop) == [("pending", 1500.5)]
    await shop.ask("reconcile")
    assert await records(shop) == []


async def _pay_late(shop: WooShop, trx_id: str) -> None:
    await shop.complete(trx_id)  # the sandbox's late test transfer
    shown: Any = (await shop.merchant.get(f"/api/v1/verify-payment/{trx_id}")).json
    assert shown["status"] == "success"
