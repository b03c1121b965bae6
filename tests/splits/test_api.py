"""The names, statuses and error codes of splits in the API."""

import json
from typing import Any

import pytest

from manilla.payments.payment_links import store
from manilla.payments.payment_links.paying import AmountNotPossible
from tests.payments.orders import INITIATE, order
from tests.payments.payment_links import customers as links
from tests.splits.steps import SPLITS, Splits, percent

SUB_ACCOUNTS, LINKS = "/api/v1/sub-accounts", "/api/v1/payment-links"


def release_path(trx_id: str) -> str:
    return f"/api/v1/payments/{trx_id}/release"


async def test_a_rule_has_an_id_a_version_and_a_status(splits: Splits) -> None:
    receiver, own = await splits.receiver(), await splits.sub_account()
    body = {
        "name": "Branches",
        "receivers": [percent(receiver, 10), {"sub_account": own}],
        "rest": own,
        "fees": receiver,
        "refunds": "owner",
        "hold": 7,
    }
    reply = await splits.shop.merchant.post(SPLITS, body)
    assert reply.status == 200, reply.body
    made = reply.json
    assert made["id"].startswith("SPL")
    assert (made["version"], made["status"]) == (1, "active")
    assert (made["rest"], made["fees"], made["refunds"]) == (own, str(receiver), "owner")
    assert made["receivers"] == body["receivers"]
    edited = await splits.shop.merchant.call(
        "PATCH", f"{SPLITS}/{made['id']}", json.dumps({"hold": "none"}).encode()
    )
    assert (edited.json["id"], edited.json["version"]) == (made["id"], 2)
    disabled = await splits.shop.merchant.post(f"{SPLITS}/{made['id']}/disable", {})
    assert (disabled.status, disabled.json["status"]) == (200, "disabled")


@pytest.mark.parametrize("hold", ["none", "release", 30])
async def test_a_payment_and_a_link_take_the_same_object_as_a_rule(
    splits: Splits, hold: Any
) -> None:
    receiver = await splits.receiver()
    rule = {"name": "Branches", "receivers": [percent(receiver, 10)], "hold": hold}
    made = (await splits.shop.merchant.post(SPLITS, rule)).json
    link = {"title": "Cloth", "amount": 500, "currency_code": "NGN"}
    for given, about in ((rule, (None, None)), (made["id"], (made["id"], 1))):
        reply = await splits.shop.merchant.post(INITIATE, order(split=given))
        assert reply.status == 200, reply.body
        split = reply.json["info"]["split"]
        assert (split["id"], split["version"]) == about
        assert [each["receiver"] for each in split["shares"]] == ["owner", str(receiver)]
        assert (await splits.shop.merchant.post(LINKS, {**link, "split": given})).status == 200


@pytest.mark.parametrize("how", ["nothing", "number", "text", "sub_account"])
async def test_a_release_names_no_receiver_or_one(splits: Splits, how: str) -> None:
    receiver: int | str = await splits.receiver()
    if how == "sub_account":
        receiver = await splits.sub_account()
    paid = await splits.pay({"receivers": [percent(receiver, 10)], "hold": "release"})
    body = {"nothing": {}, "text": {"receiver": str(receiver)}}.get(how, {"receiver": receiver})
    reply = await splits.shop.merchant.post(release_path(paid.started.trx_id), body)
    assert reply.status == 200, reply.body
    assert [each["status"] for each in reply.json["shares"]] == ["completed"]
    assert await splits.balance(receiver) == 100


async def test_unknown_ids_are_not_found(splits: Splits) -> None:
    receiver = await splits.receiver()
    started = await splits.shop.start()
    merchant = splits.shop.merchant
    replies = [
        await merchant.get(f"{SPLITS}/SPL01UNKNOWN"),
        await merchant.call("PATCH", f"{SPLITS}/SPL01UNKNOWN", b"{}"),
        await merchant.post(f"{SPLITS}/SPL01UNKNOWN/disable", {}),
        await merchant.post(release_path("TXN01UNKNOWN"), {}),
        await merchant.post(release_path(started.trx_id), {}),
    ]
    assert [each.status for each in replies] == [404] * 5, [each.body for each in replies]
    paid = await splits.pay({"receivers": [percent(receiver, 10)], "hold": "release"})
    other = {"receiver": await splits.receiver("Other")}
    reply = await merchant.post(release_path(paid.started.trx_id), other)
    assert (reply.status, reply.code, set(reply.json["errors"])) == (
        422,
        "split_invalid",
        {"receiver"},
    )


async def test_a_sub_account_is_a_receiver_by_its_id(splits: Splits) -> None:
    merchant = splits.shop.merchant
    made = (await merchant.post(SUB_ACCOUNTS, {"name": "Branch Yaba"})).json
    assert (await merchant.get(SUB_ACCOUNTS)).json["data"] == [made]
    await splits.pay({"receivers": [percent(made["id"], 40)]})
    assert await splits.balance(made["id"]) == 400


async def test_a_replayed_release_returns_the_first_answer(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 10)], "hold": "release"})
    path = release_path(paid.started.trx_id)
    replies = [
        await splits.shop.merchant.call("POST", path, b"{}", Idempotency_Key="one")
        for _ in range(2)
    ]
    assert replies[0].json == replies[1].json


async def test_the_customer_of_a_link_enters_an_amount_that_is_divided(splits: Splits) -> None:
    receiver = await splits.receiver()
    split = {"receivers": [{"merchant_id": receiver, "fixed": 400}]}
    link = {"title": "Gifts", "currency_code": "NGN", "split": split}
    made = (await splits.shop.merchant.post(LINKS, link)).json
    found = await store.find(splits.db, made["id"])
    with pytest.raises(AmountNotPossible):
        await links.start(splits.shop, found, "399.99")
    await splits.complete(await links.start(splits.shop, found, "1000"))
    assert (await splits.balance(), await splits.balance(receiver)) == (600, 400)
