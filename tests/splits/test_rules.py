"""Which splits are possible, and how rules change."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import CommissionBearer, MerchantStatus, MerchantUpdate
from manilla.merchants.wallets import WalletStatus
from manilla.splits import service
from manilla.splits.rule import ReceiverTerms, SplitTerms
from tests.payments.orders import INITIATE, order
from tests.splits.steps import SPLITS, Splits, fixed, percent


@pytest.mark.parametrize(
    ("receiver", "problem"),
    [
        ({"percent": 100.0001}, "percentage up to 100"),
        ({"percent": 0}, "percentage up to 100"),
        ({"percent": 1.00001}, "percentage up to 100"),
        ({"fixed": 0}, "above zero"),
        ({"fixed": 1, "percent": 1}, "either percent or fixed"),
        ({}, "either percent or fixed"),
        ({"fixed": 1, "minimum": 1}, "without a minimum"),
        ({"percent": 1, "minimum": -1}, "not below zero"),
        ({"percent": 1, "sub_account": "SUB1"}, "either merchant_id or sub_account"),
    ],
)
async def test_a_bad_part_is_rejected(
    splits: Splits, receiver: dict[str, Any], problem: str
) -> None:
    receiver_id = await splits.receiver()
    errors = await splits.errors({"receivers": [{"merchant_id": receiver_id, **receiver}]})
    assert problem in errors["receivers.0"]


async def test_percentages_above_100_in_all_are_rejected(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.receiver("Second")
    errors = await splits.errors({"receivers": [percent(first, 60), percent(second, 40.0001)]})
    assert "more than 100" in errors["receivers"]


async def test_fixed_parts_above_the_amount_are_rejected(splits: Splits) -> None:
    receiver = await splits.receiver()
    assert (
        "larger than what remains"
        in (await splits.errors({"receivers": [fixed(receiver, 1000.01)]}))["receivers"]
    )
    await splits.shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await splits.shop.fund("100")
    assert (
        "larger than what remains"
        in (await splits.errors({"receivers": [fixed(receiver, 985.01)]}))["receivers"]
    )
    assert (await splits.initiate({"receivers": [fixed(receiver, 985)]})).status == 200


async def test_an_owner_without_a_share_cannot_bear_the_commission(splits: Splits) -> None:
    await splits.shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await splits.shop.fund("100")
    receiver = await splits.receiver()
    split = {"receivers": [{"merchant_id": receiver}], "rest": receiver}
    assert "no share" in (await splits.errors(split))["fees"]
    assert (await splits.initiate({**split, "fees": receiver})).status == 200


async def test_the_owner_an_unknown_or_a_repeated_receiver_is_rejected(splits: Splits) -> None:
    receiver, stranger = await splits.receiver(), await splits.stranger()
    own = await splits.sub_account()
    same = percent(int(own.removeprefix("SUB")), 1)
    found = [
        await splits.errors({"receivers": [percent(splits.owner, 10)]}),
        await splits.errors({"receivers": [percent(stranger, 10)]}),
        await splits.errors({"receivers": [percent(9_999_999, 10)]}),
        await splits.errors({"receivers": [percent(f"SUB{receiver}", 10)]}),
        await splits.errors({"receivers": [percent("SUBx", 10)]}),
        await splits.errors({"receivers": [percent(receiver, 10), percent(receiver, 1)]}),
        await splits.errors({"receivers": [percent(own, 10), same]}),
    ]
    texts = ["not a receiver", *["not accepted"] * 2, *["no such sub-account"] * 2, *["twice"] * 2]
    assert all(text in each["receivers.0"] for text, each in zip(texts, found, strict=True)), found


@pytest.mark.parametrize("field", ["rest", "fees", "disputes"])
async def test_only_receivers_of_the_split_bear_something(splits: Splits, field: str) -> None:
    receiver, stranger = await splits.receiver(), await splits.receiver("Stranger")
    errors = await splits.errors({"receivers": [percent(receiver, 10)], field: stranger})
    assert "Expected owner" in errors[field]


@pytest.mark.parametrize("hold", ["sometimes", 0, 366])
async def test_a_bad_hold_is_rejected(splits: Splits, hold: Any) -> None:
    receiver = await splits.receiver()
    reply = await splits.initiate({"receivers": [percent(receiver, 10)], "hold": hold})
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")


@pytest.mark.parametrize("count", [0, 21])
async def test_a_split_has_1_to_20_receivers(splits: Splits, count: int) -> None:
    receivers = [percent(9_000_000 + each, 1) for each in range(count)]
    assert "1 to 20" in (await splits.errors({"receivers": receivers}))["receivers"]


async def test_a_receiver_needs_an_active_wallet_in_the_currency_and_environment(
    splits: Splits,
) -> None:
    receiver = await splits.receiver()
    split = {"receivers": [percent(receiver, 10)]}
    key = splits.db, receiver, splits.tenant.environment, "NGN"
    await wallets.set_status(*key, WalletStatus.INACTIVE)
    assert "no active wallet in NGN" in (await splits.errors(split))["receivers.0"]
    await wallets.set_status(*key, WalletStatus.ACTIVE)
    sandbox_key = splits.db, receiver, Environment.SANDBOX, "NGN"
    await wallets.set_status(*sandbox_key, WalletStatus.INACTIVE)
    assert (await splits.initiate(split)).status == 200


async def test_a_receiver_disabled_between_initiation_and_payment_is_still_credited(
    splits: Splits,
) -> None:
    """As for every merchant: money that arrives is credited, and its payouts wait."""
    receiver = await splits.receiver()
    split = {"receivers": [percent(receiver, 10)]}
    started = await splits.shop.start(split=split)
    disabled = MerchantUpdate(status=MerchantStatus.DISABLED, status_reason="closed")
    await merchants.change(splits.db, splits.shop.services.keyring, receiver, disabled)
    await splits.complete(started)
    assert await splits.balance(receiver) == 100
    assert "not approved" in (await splits.errors(split))["receivers.0"]


async def test_a_receiver_that_leaves_gets_no_new_shares_but_those_of_started_payments(
    splits: Splits,
) -> None:
    receiver = await splits.receiver()
    split = {"receivers": [percent(receiver, 10)]}
    started = await splits.shop.start(split=split)
    await service.answer(splits.db, receiver, splits.owner, accepts=False)
    await splits.complete(started)
    assert await splits.balance(receiver) == 100
    assert "not accepted" in (await splits.errors(split))["receivers.0"]


async def test_nobody_but_an_invited_merchant_accepts(splits: Splits) -> None:
    stranger = await splits.stranger()
    with pytest.raises(service.PartnerNotFound):
        await service.answer(splits.db, stranger, splits.owner, accepts=True)
    await service.invite(splits.db, splits.owner, stranger)
    with pytest.raises(service.PartnerNotFound):
        await service.invite(splits.db, splits.owner, stranger)
    with pytest.raises(service.PartnerNotFound):
        await service.answer(splits.db, splits.owner, stranger, accepts=True)


async def test_shares_are_not_divided_again(splits: Splits) -> None:
    """A receiver's own default rule divides its payments, not its shares."""
    receiver, other = await splits.receiver(), await splits.stranger()
    await service.invite(splits.db, receiver, other, is_accepted=True)
    tenant = Tenant(receiver, splits.tenant.environment)
    terms = SplitTerms(receivers=[ReceiverTerms(merchant_id=other, percent=Decimal(50))])
    await service.create(splits.db, tenant, "chain", terms, is_default=True)
    await splits.pay({"receivers": [percent(receiver, 10)]})
    assert (await splits.balance(receiver), await splits.balance(other)) == (100, 0)


# Rules that are stored.


async def new_rule(splits: Splits, **changed: Any) -> dict[str, Any]:
    receiver = await splits.receiver()
    body = {"name": "Branches", "receivers": [percent(receiver, 10)], **changed}
    reply = await splits.shop.merchant.post(SPLITS, body)
    assert reply.status == 200, reply.body
    answer: dict[str, Any] = reply.json
    return answer


async def test_a_change_is_a_new_version_and_changes_no_payment(splits: Splits) -> None:
    rule = await new_rule(splits)
    receiver = rule["receivers"][0]["merchant_id"]
    started = await splits.shop.start(split=rule["id"])
    assert started.info["split"]["version"] == 1
    path = f"{SPLITS}/{rule['id']}"
    raw = b'{"receivers": [{"merchant_id": %d, "percent": 20}]}' % receiver
    reply = await splits.shop.merchant.call("PATCH", path, raw)
    assert (reply.status, reply.json["version"]) == (200, 2)
    await splits.complete(started)
    await splits.pay(rule["id"])
    assert await splits.balance(receiver) == 300
    assert (await splits.shop.merchant.get(path)).json == reply.json


async def test_two_changes_at_once_are_two_versions(splits: Splits) -> None:
    rule = await new_rule(splits)
    path = f"{SPLITS}/{rule['id']}"
    replies = await asyncio.gather(
        splits.shop.merchant.call("PATCH", path, b'{"hold": 7}'),
        splits.shop.merchant.call("PATCH", path, b'{"fees": "proportional"}'),
    )
    assert sorted(each.json["version"] for each in replies) == [2, 3]
    last = (await splits.shop.merchant.get(path)).json
    assert (last["hold_days"], last["fees"]) == (7, "proportional")


async def test_a_disabled_rule_divides_no_new_payment(splits: Splits) -> None:
    rule = await new_rule(splits)
    path = f"{SPLITS}/{rule['id']}"
    reply = await splits.shop.merchant.post(path + "/disable", {})
    assert reply.json["status"] == "disabled"
    assert "disabled" in (await splits.errors(rule["id"]))["split"]
    again = await splits.shop.merchant.call("PATCH", path, b'{"hold": 7}')
    assert (again.status, again.code) == (422, "split_invalid")


async def test_the_default_rule_divides_payments_without_a_split(splits: Splits) -> None:
    first = await new_rule(splits, default=True)
    second = await new_rule(splits, default=True, name="Other")
    await splits.shop.services.directory._refresh(0)
    reply = await splits.shop.merchant.post(INITIATE, order())
    assert reply.json["info"]["split"]["id"] == second["id"]
    listed = (await splits.shop.merchant.get(SPLITS)).json["data"]
    assert [(each["id"], each["default"]) for each in listed] == [
        (second["id"], True),
        (first["id"], False),
    ]
    await splits.shop.merchant.post(f"{SPLITS}/{second['id']}/disable", {})
    await splits.shop.services.directory._refresh(0)
    assert "split" not in (await splits.shop.merchant.post(INITIATE, order())).json["info"]


async def test_another_merchants_or_environments_rule_is_unknown(
    splits: Splits, sandbox_shop: Any
) -> None:
    rule = await new_rule(splits)
    other = sandbox_shop.merchant
    replies = [
        await other.get(f"{SPLITS}/{rule['id']}"),
        await other.post(f"{SPLITS}/{rule['id']}/disable", {}),
        await other.call("PATCH", f"{SPLITS}/{rule['id']}", b"{}"),
    ]
    assert {each.status for each in replies} == {404}
    reply = await other.post(INITIATE, order(split=rule["id"]))
    assert (reply.status, reply.code) == (422, "split_invalid")


async def test_the_list_is_paged(splits: Splits) -> None:
    rules = [(await new_rule(splits, name=f"R{each}"))["id"] for each in range(3)]
    first = (await splits.shop.merchant.get(SPLITS + "?limit=2")).json
    second = await splits.shop.merchant.get(f"{SPLITS}?limit=2&cursor={first['next_cursor']}")
    found = [each["id"] for each in first["data"] + second.json["data"]]
    assert (found, second.json["next_cursor"]) == (rules[::-1], None)


async def test_a_payment_without_a_split_has_no_trace_of_one(splits: Splits) -> None:
    started = await splits.shop.start()
    assert "split" not in started.info
    await splits.complete(started)
    payment = await splits.shop.payment(started)
    assert payment.split is None
