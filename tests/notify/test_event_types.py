"""Every status change of a payout or refund creates an event, with or without an `ipn_url`."""

import asyncio
from typing import Any

from manilla.ledger import invariants
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from manilla.methods.method import MethodKind
from manilla.payouts import decisions
from manilla.refunds import initiate, states
from manilla.transfers.events import Source, TransferEvent, TransferResult
from tests.notify.endpoint_merchant import EndpointMerchant
from tests.payouts.payout_merchant import ACCOUNT, INITIATE, MANUAL, new_reference
from tests.support.invariants import ALL

NO_IPN = "http://127.0.0.1:1/"


async def _types(shop: EndpointMerchant, trx_id: str) -> list[tuple[str, Any]]:
    events = (await shop.merchant.get("/api/v1/events?limit=100")).json["data"]
    return [(each["type"], each["ref_trx"]) for each in events if each["trx_id"] == trx_id]


async def test_a_refund_has_events_of_its_start_and_its_result(shop: EndpointMerchant) -> None:
    db = shop.services.db
    await shop.create("refund.*")
    trx_id = await shop.deliveries.finish_payment(ipn_url=NO_IPN)
    for outcome in (TransferEvent.DELIVERED, TransferEvent.REJECTED):
        refund = await initiate.start(db, trx_id, "100", "returned")
        await states.apply_result(db, refund, TransferResult(outcome, Source.SANDBOX))
    types = [each for each, _ in await _types(shop, trx_id)]
    assert types == [
        *("payment.success", "refund.pending", "refund.completed"),
        *("refund.pending", "refund.failed"),
    ]
    # Only the payment and the completed refund are sent to `ipn_url`.
    sent = [each for each in await shop.deliveries.notifications(trx_id) if each.url]
    assert [(each.event, each.status) for each in sent] == [
        ("payment", "completed"),
        ("refund", "completed"),
    ]
    for _ in range(4):
        await shop.deliver()
    received = [each.json["type"] for each in shop.receiver.received]
    assert received == ["refund.pending", "refund.completed", "refund.pending", "refund.failed"]
    assert [each for each in await invariants.check(db, ALL) if each.count] == []


async def test_a_payout_has_events_of_its_start_and_its_result(shop: EndpointMerchant) -> None:
    services = shop.services
    await _enable_payouts(shop)
    body = _order(shop)
    reply = await shop.merchant.post(INITIATE, body)
    assert reply.status == 200, reply.body
    trx_id = reply.json["trx_id"]
    await decisions.reject(services.db, services.rails, trx_id, "test")
    expected = ["payout.pending", "payout.canceled"]
    assert await _types(shop, trx_id) == [(each, body["ref_trx"]) for each in expected]
    for _ in range(2):
        await shop.deliver()
    assert [each.json["type"] for each in shop.receiver.received] == expected
    assert shop.receiver.received[0].json["data"]["ref_trx"] == body["ref_trx"]
    assert "refunded_amount" not in shop.receiver.received[0].json


async def test_a_payout_that_the_wallet_cannot_cover_has_no_event(shop: EndpointMerchant) -> None:
    await _enable_payouts(shop)
    balance = (await shop.merchant.get("/api/v1/balance")).json["balances"][0]["available"]
    orders = [_order(shop, amount=balance // 2) for _ in range(20)]
    replies = await asyncio.gather(*(shop.merchant.post(INITIATE, order) for order in orders))
    accepted = {
        order["ref_trx"]
        for order, reply in zip(orders, replies, strict=True)
        if reply.status == 200
    }
    events = (await shop.merchant.get("/api/v1/events?limit=100")).json["data"]
    pending = [each["ref_trx"] for each in events if each["type"] == "payout.pending"]
    assert 0 < len(accepted) < len(orders)
    assert len(pending) == len(accepted)
    assert set(pending) == accepted
    assert [each for each in await invariants.check(shop.services.db, ALL) if each.count] == []


async def _enable_payouts(shop: EndpointMerchant) -> None:
    """Enables payouts, funds the wallet, and adds an endpoint for payout events."""
    services, merchant_id = shop.services, shop.merchant.new.id
    update = MerchantUpdate(payouts_enabled=True, kyc_verified=True)
    await merchants.change(services.db, services.keyring, merchant_id, update)
    await shop.create("payout.*")
    await shop.deliveries.finish_payment(ipn_url=NO_IPN)


def _order(shop: EndpointMerchant, amount: int = 500) -> dict[str, Any]:
    method = shop.services.methods.by_code(MethodKind.WITHDRAW, MANUAL)
    assert method is not None
    return {
        "payout_amount": amount,
        "currency_code": "NGN",
        "ref_trx": new_reference(),
        "withdraw_method_id": method.id,
        "ipn_url": NO_IPN,
        "beneficiary": {"Bank Name": "Access Bank", "Account Number": ACCOUNT},
    }
