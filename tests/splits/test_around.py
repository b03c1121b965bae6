"""Shares beside links, sub-accounts, crashes, batches, upgrades, the archive and moves."""

import asyncio
import contextlib
import json
from typing import Any

import pytest
from asyncpg import ObjectNotInPrerequisiteStateError

from manilla.cells.moving import checks
from manilla.disputes import balances
from manilla.kit.environment import Environment
from manilla.lookup import find
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payments.payment_links.paying import CustomerInput, PaymentNotPossible
from manilla.people import members
from manilla.people.roles import Role
from manilla.splits import service
from manilla.splits.rule import SplitInvalid
from tests.payments.orders import INITIATE, order
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at
from tests.splits.steps import Splits, percent

LINKS, SUB_ACCOUNTS = "/api/v1/payment-links", "/api/v1/sub-accounts"


async def test_a_payment_link_divides_its_payments(splits: Splits) -> None:
    receiver = await splits.receiver()
    link = {
        "title": "Cloth",
        "amount": 500,
        "currency_code": "NGN",
        "split": {"receivers": [percent(receiver, 10)]},
    }
    made = (await splits.shop.merchant.post(LINKS, link)).json
    url = await splits.shop.services.link_payments.start(made["id"], CustomerInput(), "10.0.0.9")
    trx_id = url.partition("?")[0].rpartition("/")[2]
    charge = await splits.shop.services.checkout.choose(trx_id, "providera-ngn")
    await splits.shop.pay(charge)
    await splits.shop.simulator.until(lambda: splits.balance(receiver))
    assert await splits.balance(receiver) == 50
    await service.answer(splits.db, receiver, splits.owner, accepts=False)
    with pytest.raises(PaymentNotPossible):
        await splits.shop.services.link_payments.start(made["id"], CustomerInput(), "10.0.0.9")
    refused = await splits.shop.merchant.post(LINKS, link)
    assert (refused.status, refused.code) == (422, "split_invalid")


async def test_a_sub_account_has_the_team_and_the_status_of_its_owner(splits: Splits) -> None:
    db, keyring = splits.db, splits.shop.services.keyring
    await _join(splits, "ada@example.com", Role.OWNER)
    made = (await splits.shop.merchant.post(SUB_ACCOUNTS, {"name": "Branch"})).json
    await _join(splits, "bola@example.com", Role.FINANCE)
    number = made["merchant_id"]
    assert [each.role for each in await members.list_of(db, number)] == ["owner", "finance"]
    bola = (await members.list_of(db, splits.owner))[1].person_id
    await members.change_role(db, splits.owner, bola, Role.VIEWER)
    assert [each.role for each in await members.list_of(db, number)] == ["owner", "viewer"]
    await members.remove(db, splits.owner, bola)
    assert [each.role for each in await members.list_of(db, number)] == ["owner"]
    disabled = MerchantUpdate(status=MerchantStatus.DISABLED, status_reason="closed")
    await merchants.change(db, keyring, splits.owner, disabled)
    assert (await merchants.get(db, number)).status == "disabled"
    with pytest.raises(SplitInvalid, match="cannot have"):
        await service.create_sub_account(db, keyring, number, "Chain")


async def _join(splits: Splits, email: str, role: Role) -> None:
    await members.add(
        *(splits.db, splits.owner),
        email=f"{splits.owner}-{email}",
        name="A member",
        role=role,
        password="correct horse battery",
    )


async def test_a_repeated_request_creates_one_sub_account(splits: Splits) -> None:
    body = b'{"name": "Branch"}'
    replies = [
        await splits.shop.merchant.call("POST", SUB_ACCOUNTS, body, Idempotency_Key="one")
        for _ in range(2)
    ]
    assert replies[0].json == replies[1].json
    assert len((await splits.shop.merchant.get(SUB_ACCOUNTS)).json["data"]) == 1


async def test_balances_show_what_is_held_and_what_is_claimed(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": "release"})
    [held] = await balances.of_merchant(splits.db, receiver, Environment.PRODUCTION)
    assert held.withheld_minor == 300_00
    await service.release(splits.db, splits.tenant, paid.started.trx_id, None)
    await splits.empty(receiver)
    await splits.add(None, 300_00)
    await splits.refund(paid)
    [own] = (await splits.shop.merchant.get("/api/v1/balance")).json["balances"]
    assert (own["available"], own["withheld"]) == (0, 300)


async def test_a_receivers_statement_has_its_share_and_nothing_of_the_owner(
    splits: Splits,
) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    [share] = await splits.shares(paid)
    entries = await splits.db.records(
        "SELECT p.trx_id, p.kind, e.amount_minor FROM entry e JOIN posting p"
        " ON p.merchant_id = e.merchant_id AND p.id = e.posting_id"
        " WHERE e.merchant_id = $1 AND e.account = 'wallet' AND e.environment = 'production'",
        receiver,
    )
    assert [tuple(each) for each in entries] == [(share.trx_id, "share", 300_00)]
    body: bytes = await splits.db.value(
        "SELECT body FROM notification WHERE merchant_id = $1 AND trx_id = $2",
        *(receiver, share.trx_id),
    )
    payment = await splits.shop.payment(paid.started)
    assert payment.ref_trx.encode() not in body
    assert 700 not in json.loads(body)["data"].values()
    found = await find.find(splits.db, share.trx_id)
    assert found is not None


# Crashes and races.


@pytest.mark.parametrize("point", ["amid_payment_credit", "before_payment_commit"])
async def test_a_crash_during_the_credit_books_all_shares_once(splits: Splits, point: str) -> None:
    receiver = await splits.receiver()
    started = await splits.shop.start(split={"receivers": [percent(receiver, 30)]})
    charge = await splits.shop.choose(started, "providera-ngn")
    with dying_at(point), contextlib.suppress(Killed):
        await splits.shop.pay(charge)
        await splits.shop.simulator.run_jobs()
    await splits.db.execute("UPDATE job SET lease = NULL, leased_until = NULL")
    await splits.shop.until(started, "success")
    assert (await splits.balance(), await splits.balance(receiver)) == (700, 300)


@pytest.mark.parametrize("point", ["amid_shares", "before_refund_commit"])
async def test_a_crash_during_a_refund_takes_nothing(splits: Splits, point: str) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    with dying_at(point), pytest.raises(Killed):
        await splits.refund(paid)
    assert (await splits.balance(), await splits.balance(receiver)) == (700, 300)
    await splits.refund(paid)
    assert (await splits.balance(), await splits.balance(receiver)) == (0, 0)


async def test_a_release_and_a_refund_at_once_leave_no_money(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": "release"})
    await asyncio.gather(
        service.release(splits.db, splits.tenant, paid.started.trx_id, None),
        splits.refund(paid),
    )
    assert (await splits.balance(), await splits.balance(receiver)) == (0, 0)
    assert await splits.withheld(receiver) == 0


async def test_owners_that_share_with_each_other_at_once_do_not_deadlock(splits: Splits) -> None:
    """Payments are credited in batches, whose items lock the wallets of several merchants."""
    receivers = [await splits.receiver(f"R{each}") for each in range(3)]
    split = {"receivers": [percent(each, 10) for each in receivers]}
    plain = [await splits.shop.start() for _ in range(4)]
    divided = [await splits.shop.start(split=split) for _ in range(4)]
    await asyncio.gather(*(splits.complete(each) for each in (*plain, *divided)))
    assert [await splits.balance(each) for each in receivers] == [400] * 3
    assert await splits.balance() == 4000 + 4 * 700


# The previous release, the archive and moves.


async def test_the_previous_release_cannot_credit_a_payment_without_its_shares(
    splits: Splits,
) -> None:
    receiver = await splits.receiver()
    started = await splits.shop.start(split={"receivers": [percent(receiver, 30)]})
    with pytest.raises(ObjectNotInPrerequisiteStateError, match="without its shares"):
        await splits.db.execute(
            "UPDATE payment SET status = 'success' WHERE merchant_id = $1 AND trx_id = $2",
            *(splits.owner, started.trx_id),
        )
    await splits.complete(started)


async def test_how_a_payment_is_divided_never_changes(splits: Splits) -> None:
    receiver = await splits.receiver()
    started = await splits.shop.start(split={"receivers": [percent(receiver, 30)]})
    with pytest.raises(Exception, match="never changes"):
        await splits.db.execute(
            "UPDATE payment SET split = NULL WHERE merchant_id = $1 AND trx_id = $2",
            *(splits.owner, started.trx_id),
        )


@pytest.mark.parametrize("whose", ["owner", "receiver", "sub_account"])
async def test_a_merchant_that_shares_payments_stays_in_its_cell(
    splits: Splits, whose: str
) -> None:
    receiver, own = await splits.receiver(), await splits.sub_account()
    number = {"owner": splits.owner, "receiver": receiver, "sub_account": int(own[3:])}[whose]
    problems = [each async for each in checks._merchant_problems(splits.db, number, False)]
    assert any("shares payments" in each for each in problems)


async def test_a_replayed_request_lists_the_same_shares(splits: Splits) -> None:
    receiver = await splits.receiver()
    body: Any = order(split={"receivers": [percent(receiver, 30)]})
    raw = json.dumps(body).encode()
    replies = [
        await splits.shop.merchant.call("POST", INITIATE, raw, Idempotency_Key="one")
        for _ in range(2)
    ]
    assert replies[0].json == replies[1].json
