"""Refunds through the API.

Each reference creates one refund, refunds never exceed the paid amount, and a request with an
idempotency key can be repeated.
"""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger.timeline import steps
from manilla.merchants import wallets
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.merchants.wallets import WalletStatus
from manilla.refunds import initiate
from tests.lists.pages import every, ids, page
from tests.payments.orders import new_reference
from tests.payments.shop import Shop, Started
from tests.support.client import Reply, new_merchant
from tests.support.rows import first_short

INITIATE, VERIFY, LIST = "/api/v1/initiate-refund", "/api/v1/verify-refund/", "/api/v1/refunds"


async def _paid(shop: Shop, **changed: Any) -> Started:
    started = await shop.start(**changed)
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    return started


def _order(started: Started, **changed: Any) -> dict[str, Any]:
    order = {"trx_id": started.trx_id, "ref_trx": new_reference(), **changed}
    return {name: value for name, value in order.items() if value is not None}


async def _refund(shop: Shop, order: Any, **headers: str | None) -> Reply:
    raw = order if isinstance(order, bytes) else json.dumps(order).encode()
    return await shop.merchant.call("POST", INITIATE, raw, **headers)


async def _verified(shop: Shop, trx_id: str) -> Any:
    reply = await shop.merchant.get(VERIFY + trx_id)
    assert reply.status == 200, reply.body
    return reply.json


async def test_a_refund_debits_the_wallet_and_is_paid_by_the_provider(shop: Shop) -> None:
    started = await _paid(shop)
    order = _order(started, amount=250.5, reason="Damaged")
    reply = await _refund(shop, order)
    trx_id = reply.json["trx_id"]
    assert reply.json == {
        "trx_id": trx_id,
        "status": "pending",
        "info": {
            "merchant_id": shop.merchant.new.id,
            "merchant_name": "Ada Stores",
            "ref_trx": order["ref_trx"],
            "environment": "production",
            "is_sandbox": False,
            "trx_id": trx_id,
            "payment_trx_id": started.trx_id,
            "amount": 250.5,
            "currency_code": "NGN",
            "reason": "Damaged",
            "status": "pending",
        },
    }
    assert reply.headers["x-transaction-id"] == trx_id.lower()
    assert await shop.balance() == 74_950
    pending = await _verified(shop, trx_id)
    assert (pending["status"], pending["message"]) == ("pending", "Refund is still pending.")
    await _finish(shop, trx_id, "success")
    verified = await _verified(shop, trx_id)
    assert verified == {
        "status": "success",
        "event": "refund",
        "trx_id": trx_id,
        "ref_trx": order["ref_trx"],
        "payment_trx_id": started.trx_id,
        "amount": 250.5,
        "currency": "NGN",
        "reason": "Damaged",
        "message": "Refund completed.",
        "created_at": pending["created_at"],
        "updated_at": verified["updated_at"],
    }
    assert verified["updated_at"] > verified["created_at"]
    notified = (await shop.notifications(started))[-1]["data"]
    assert (notified["refund_ref_trx"], notified["ref_trx"]) == (
        order["ref_trx"],
        started.info["ref_trx"],
    )
    assert await shop.account("in_flight") == 0


async def _finish(shop: Shop, trx_id: str, status: str) -> None:
    async def is_so() -> bool:
        return bool((await _verified(shop.from_new_ip(), trx_id))["status"] == status)

    await shop.simulator.until(is_so)


async def test_a_refund_without_an_amount_returns_what_is_left(shop: Shop) -> None:
    started = await _paid(shop)
    assert (await _refund(shop, _order(started, amount=400))).status == 200
    reply = await _refund(shop, _order(started))
    assert (reply.json["info"]["amount"], reply.json["info"]["reason"]) == (600, None)
    assert (await _verified(shop, reply.json["trx_id"]))["reason"] is None
    assert await shop.balance() == 0
    again = await _refund(shop, _order(started))
    assert (again.status, again.code) == (422, "refund_failed")
    assert await shop.balance() == 0


async def test_a_refund_above_what_is_left_is_rejected(shop: Shop) -> None:
    started = await _paid(shop)
    await shop.fund("5000")
    assert (await _refund(shop, _order(started, amount=999.99))).status == 200
    reply = await _refund(shop, _order(started, amount=0.02))
    assert (reply.status, reply.code) == (422, "refund_failed")
    assert await shop.balance() == 500_001


async def test_a_refund_above_the_balance_is_rejected(shop: Shop) -> None:
    started = await _paid(shop)
    db, merchant = shop.services.db, shop.merchant
    everything = Money("NGN", -100_000)
    await wallets.adjust(db, merchant.new.id, merchant.environment, everything, "for a test")
    reply = await _refund(shop, _order(started, amount=0.01))
    assert (reply.status, reply.code) == (422, "insufficient_balance")
    assert await shop.balance() == 0
    assert (await shop.payment(started)).refunded_minor == 0


@pytest.mark.parametrize(
    ("amount", "code"),
    first_short(
        [
            ("0", "INVALID_AMOUNT"),
            ("-1", "INVALID_AMOUNT"),
            ("0.001", "INVALID_AMOUNT"),
            ('"5"', "INVALID_AMOUNT"),
            ("true", "INVALID_AMOUNT"),
            ("1e400", "INVALID_AMOUNT"),
            ("NaN", "VALIDATION_FAILED"),
        ]
    ),
)
async def test_an_impossible_amount_is_rejected(shop: Shop, amount: str, code: str) -> None:
    started = await _paid(shop)
    body = json.dumps(_order(started, amount="@")).replace('"@"', amount).encode()
    reply = await _refund(shop, body)
    assert (reply.status, reply.code) == (400, code), reply.body
    assert await shop.balance() == 100_000


async def test_all_invalid_fields_are_named(shop: Shop) -> None:
    reply = await _refund(shop, {"amount": 5, "reason": "x" * 201})
    assert (reply.status, set(reply.json["errors"])) == (400, {"trx_id", "ref_trx", "reason"})


async def test_a_used_reference_is_rejected_with_the_first_refund(shop: Shop) -> None:
    started, other = await _paid(shop), await _paid(shop)
    order = _order(started)
    first = await _refund(shop, order)
    for repeated in (order, {**order, "amount": 1}, _order(other, ref_trx=order["ref_trx"])):
        reply = await _refund(shop, repeated)
        assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
        assert reply.json["trx_id"] == first.json["trx_id"]
        assert reply.json["status"] == "pending"
    assert await shop.balance() == 100_000
    await _finish(shop, first.json["trx_id"], "success")
    assert (await _refund(shop, order)).json["status"] == "success"


async def test_a_reference_can_be_used_by_another_merchant_and_for_a_payment(
    shop: Shop, db: Database, keyring: Keyring
) -> None:
    stranger = await new_merchant(
        shop.merchant.site, db, keyring, environment=Environment.PRODUCTION
    )
    other = Shop(shop.services, shop.simulator, stranger)
    for each in (shop, other):
        started = await _paid(each, ref_trx="REFERENCE-1")
        assert (await _refund(each, _order(started, ref_trx="REFERENCE-1"))).status == 200


async def test_many_copies_of_a_request_make_one_refund(shop: Shop) -> None:
    started = await _paid(shop)
    order = _order(started, amount=100)
    replies = await asyncio.gather(*(_refund(shop, order) for _ in range(10)))
    assert sorted(reply.status for reply in replies) == [200] + [422] * 9
    assert {reply.json["trx_id"] for reply in replies} == {
        reply.json["trx_id"] for reply in replies if reply.status == 200
    }
    assert await shop.balance() == 90_000


async def test_one_reference_for_two_payments_at_once_makes_one_refund(shop: Shop) -> None:
    payments = [await _paid(shop) for _ in range(4)]
    reference = new_reference()
    replies = await asyncio.gather(
        *(_refund(shop, _order(each, ref_trx=reference)) for each in payments)
    )
    assert sorted(reply.status for reply in replies) == [200, 422, 422, 422]
    assert {reply.code for reply in replies if reply.status == 422} == {"DUPLICATE_REFERENCE"}
    assert await shop.balance() == 300_000


async def test_concurrent_refunds_never_exceed_the_payment(shop: Shop) -> None:
    await shop.fund("10000")
    started = await _paid(shop)
    by_api = [_refund(shop, _order(started, amount=300)) for _ in range(6)]
    in_dashboard = [
        initiate.start(shop.services.db, started.trx_id, "300", "Damaged") for _ in range(6)
    ]
    await asyncio.gather(*by_api, *in_dashboard, return_exceptions=True)
    assert (await shop.payment(started)).refunded_minor == 90_000
    assert await shop.balance() == 1_010_000


async def test_the_same_key_and_body_replay_the_first_response(shop: Shop) -> None:
    started = await _paid(shop)
    order = _order(started, amount=100)
    first = await _refund(shop, order, Idempotency_Key="key-1")
    again = await _refund(shop, order, Idempotency_Key="key-1")
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["x-transaction-id"] == first.json["trx_id"].lower()
    for changed in (_order(started, amount=100), {**order, "amount": 5000}):
        other = await _refund(shop, changed, Idempotency_Key="key-1")
        assert (other.status, other.code) == (422, "DUPLICATE_REFERENCE")
    assert await shop.balance() == 90_000


async def test_one_key_sent_many_times_at_once_makes_one_refund(shop: Shop) -> None:
    started = await _paid(shop)
    order = _order(started, amount=100)
    same = await asyncio.gather(*(_refund(shop, order, Idempotency_Key="key-2") for _ in range(8)))
    assert {(reply.status, reply.body) for reply in same} == {(200, same[0].body)}
    others = [_order(started, amount=100) for _ in range(8)]
    replies = await asyncio.gather(
        *(_refund(shop, each, Idempotency_Key="key-3") for each in others)
    )
    assert sorted(reply.status for reply in replies) == [200] + [422] * 7
    assert await shop.balance() == 80_000


async def test_a_rejected_refund_leaves_its_key_and_reference_unused(shop: Shop) -> None:
    started = await _paid(shop)
    order = _order(started, amount=1000.01)
    assert (await _refund(shop, order, Idempotency_Key="key-4")).code == "refund_failed"
    accepted = await _refund(shop, {**order, "amount": 1000}, Idempotency_Key="key-4")
    assert accepted.status == 200


@pytest.mark.parametrize("state", ["pending", "failed"])
async def test_only_successful_payments_can_be_refunded(shop: Shop, state: str) -> None:
    started = await shop.start()
    if state == "failed":
        await shop.simulator.run_job_now("payment.expire", started.trx_id)
    reply = await _refund(shop, _order(started))
    assert (reply.status, reply.code) == (422, "refund_failed")


async def test_other_peoples_payments_look_as_if_they_did_not_exist(
    shop: Shop, db: Database, keyring: Keyring
) -> None:
    started = await _paid(shop)
    made = await _refund(shop, _order(started, amount=1))
    stranger = await new_merchant(
        shop.merchant.site, db, keyring, environment=Environment.PRODUCTION
    )
    in_sandbox = msgspec.structs.replace(shop.merchant, environment=Environment.SANDBOX)
    body = json.dumps(_order(started)).encode()
    replies = [await merchant.call("POST", INITIATE, body) for merchant in (stranger, in_sandbox)]
    replies += [
        await merchant.get(VERIFY + made.json["trx_id"]) for merchant in (stranger, in_sandbox)
    ]
    replies += [
        await shop.merchant.get(VERIFY + started.trx_id),
        await _refund(shop, {"trx_id": made.json["trx_id"], "ref_trx": "x"}),
        await _refund(shop, {"trx_id": "TXN", "ref_trx": "x"}),
    ]
    assert {(reply.status, reply.body) for reply in replies} == {(404, replies[0].body)}
    assert replies[0].code == "TRANSACTION_NOT_FOUND"


async def test_disabled_payouts_and_an_inactive_wallet_block_refunds(shop: Shop) -> None:
    started = await _paid(shop)
    await shop.change(MerchantUpdate(payouts_enabled=False))
    reply = await _refund(shop, _order(started))
    assert (reply.status, reply.code) == (422, "refund_failed")
    await shop.change(MerchantUpdate(payouts_enabled=True))
    await wallets.set_status(
        shop.services.db,
        shop.merchant.new.id,
        Environment.PRODUCTION,
        "NGN",
        WalletStatus.INACTIVE,
    )
    reply = await _refund(shop, _order(started))
    assert (reply.status, reply.code) == (422, "refund_failed")
    await shop.change(MerchantUpdate(status=MerchantStatus.DISABLED, status_reason="A test"))
    assert (await _refund(shop, _order(started))).code == "MERCHANT_SUSPENDED"
    assert await shop.balance() == 100_000


async def test_a_failed_refund_returns_the_amount(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"refunds": "failed"})
    started = await _paid(shop)
    reply = await _refund(shop, _order(started))
    await _finish(shop, reply.json["trx_id"], "failed")
    verified = await _verified(shop, reply.json["trx_id"])
    assert verified["message"] == "Refund failed. The amount was returned to the wallet."
    assert await shop.balance() == 100_000
    assert (await _refund(shop, _order(started))).status == 200


@pytest.mark.parametrize(
    ("scenario", "status", "rest"),
    [
        (None, "success", 0),
        ("success", "success", 0),
        ("failed", "failed", 1),
        ("pending", "pending", 0),
    ],
)
async def test_the_sandbox_refunds_as_the_scenario_says(
    sandbox_shop: Shop, scenario: str | None, status: str, rest: int
) -> None:
    started = await sandbox_shop.start()
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    before = await sandbox_shop.balance()
    reply = await _refund(sandbox_shop, _order(started), X_Sandbox_Scenario=scenario)
    assert (reply.status, reply.json["info"]["is_sandbox"]) == (200, True)
    await sandbox_shop.simulator.run_jobs()
    assert (await _verified(sandbox_shop, reply.json["trx_id"]))["status"] == status
    assert await sandbox_shop.balance() == before - 100_000 * (1 - rest)


async def test_scenarios_are_rejected_in_production(shop: Shop) -> None:
    started = await _paid(shop)
    reply = await _refund(shop, _order(started), X_Sandbox_Scenario="success")
    assert (reply.status, set(reply.json["errors"])) == (400, {"X-Sandbox-Scenario"})


async def test_the_list_has_refunds_of_the_api_and_of_the_dashboard(shop: Shop) -> None:
    started = await _paid(shop)
    order = _order(started, amount=1)
    by_api = (await _refund(shop, order)).json["trx_id"]
    in_dashboard = await initiate.start(shop.services.db, started.trx_id, "2", "Damaged")
    items = await every(shop.merchant, LIST, limit=1)
    assert ids(items) == [in_dashboard.trx_id, by_api]
    assert [item["ref_trx"] for item in items] == [None, order["ref_trx"]]
    for item in items:
        assert item == await _verified(shop, item["trx_id"])
    one = await page(shop.merchant, LIST, ref_trx=order["ref_trx"])
    assert (ids(one["data"]), one["next_cursor"]) == ([by_api], None)
    assert ids(await every(shop.merchant, LIST, status="pending")) == ids(items)
    assert await every(shop.merchant, LIST, status="failed") == []
    assert ids(await every(shop.merchant, LIST, since=items[0]["created_at"])) == ids(items[:1])


async def test_a_refund_of_the_api_does_not_wait_for_the_audit_log(shop: Shop) -> None:
    started = await _paid(shop)
    trx_id = (await _refund(shop, _order(started))).json["trx_id"]
    about = AuditFilter(merchant_id=shop.merchant.new.id, subject=f"refund:{trx_id}")
    assert await audit.list_entries(shop.services.db, about) == []
    events = await steps(shop.services.db, shop.merchant.new.id, started.trx_id)
    assert [each.event for each in events if trx_id in (each.detail or "")] == ["refund_started"]
