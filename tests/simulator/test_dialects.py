"""The behavior that all real providers' simulated APIs share. Statuses and errors differ."""

import asyncio
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from tests.simulator.dialects import DIALECTS, EVERY, Dialect
from tests.simulator.merchant_platform import Platform
from tests.support.waiting import until, until_true

every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
REFERENCE, LATER = "txn0000000000000001", "txn0000000000000002"
OPENING = Decimal("10000000.00")
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def plan(platform: Platform, dialect: Dialect, fault: str, **more: Any) -> None:
    faults = {"next": [{"call": "transfer", "fault": fault, **more}]}
    await platform.control(f"{dialect.key}/faults", faults)


async def exists(platform: Platform, dialect: Dialect, reference: str = REFERENCE) -> bool:
    listed = await platform.control(f"{dialect.key}/transfers?reference={reference}")
    return bool(listed["transfers"])


async def settled(platform: Platform, dialect: Dialect, status: str) -> None:
    await settled_as(platform, dialect, REFERENCE, status)


async def settled_as(platform: Platform, dialect: Dialect, reference: str, status: str) -> None:
    async def is_settled() -> bool:
        return await dialect.transfer_status(platform, reference) == status

    await until(is_settled)


async def fee(platform: Platform, dialect: Dialect) -> Decimal:
    return Decimal((await platform.control("state"))[dialect.key]["fees"]["transfer"])


@every_dialect
async def test_without_credentials_every_call_is_rejected(
    platform: Platform, dialect: Dialect
) -> None:
    reply = await platform.send("GET", f"/{dialect.key}{dialect.balance_path}")
    assert dialect.refusal(reply) == dialect.unauthorized


@every_dialect
async def test_a_transfer_is_accepted_then_delivered_and_the_webhook_is_signed(
    platform: Platform, dialect: Dialect
) -> None:
    reply = await dialect.transfer(platform, REFERENCE)
    assert (reply.status, dialect.accepted_status(reply)) == (200, dialect.accepted)
    (webhook,) = await platform.webhooks(1)
    assert webhook.path == f"/webhooks/{dialect.key}"
    assert dialect.is_signed(webhook)
    assert REFERENCE in webhook.raw.decode()
    assert await dialect.transfer_status(platform, REFERENCE) == dialect.success
    expected = OPENING - 1000 - await fee(platform, dialect)
    assert await platform.available(dialect.key) == expected


@every_dialect
async def test_a_failed_transfer_costs_nothing(platform: Platform, dialect: Dialect) -> None:
    await dialect.transfer(platform, REFERENCE, "0000000001")
    await settled(platform, dialect, dialect.failed)
    assert await platform.available(dialect.key) == OPENING


@every_dialect
async def test_an_account_that_cannot_be_resolved_is_refused(
    platform: Platform, dialect: Dialect
) -> None:
    reply = await dialect.transfer(platform, REFERENCE, "0000000002")
    assert dialect.refusal(reply) == dialect.unresolvable
    assert dialect.is_unknown(await dialect.ask_transfer(platform, REFERENCE))


@every_dialect
async def test_a_transfer_stays_pending_until_it_is_settled(
    platform: Platform, dialect: Dialect
) -> None:
    await dialect.transfer(platform, REFERENCE, "0000000003")
    await dialect.transfer(platform, LATER)
    await settled_as(platform, dialect, LATER, dialect.success)
    assert await dialect.transfer_status(platform, REFERENCE) == dialect.processing
    await platform.control(f"{dialect.key}/transfers/{REFERENCE}/settle", {"status": "success"})
    assert await dialect.transfer_status(platform, REFERENCE) == dialect.success


@every_dialect
async def test_a_wallet_that_is_too_low_refuses(platform: Platform, dialect: Dialect) -> None:
    await platform.control(f"{dialect.key}/balance", {"available": 1000})
    reply = await dialect.transfer(platform, REFERENCE)
    assert dialect.refusal(reply) == dialect.insufficient
    assert not await exists(platform, dialect)


@every_dialect
async def test_a_reference_moves_money_once(platform: Platform, dialect: Dialect) -> None:
    replies = await asyncio.gather(*(dialect.transfer(platform, REFERENCE) for _ in range(5)))
    refused = [dialect.refusal(reply) for reply in replies if reply.status != 200]
    assert refused == [dialect.duplicate] * 4
    expected = OPENING - 1000 - await fee(platform, dialect)
    assert await platform.available(dialect.key) == expected


@pytest.mark.parametrize("dialect", [each for each in EVERY if each.approval_switch])
async def test_a_transfer_can_wait_for_a_person(platform: Platform, dialect: Dialect) -> None:
    await platform.control(f"{dialect.key}/account", {dialect.approval_switch: True})
    reply = await dialect.transfer(platform, REFERENCE)
    assert reply.status == 200
    # This transfer belongs to another provider and needs no approval.
    await platform.transfer("b", "TXN1")
    await platform.settled("b", "TXN1", "success")
    assert await dialect.transfer_status(platform, REFERENCE) == dialect.waiting
    assert await platform.sent_webhooks(dialect.key) == []
    await platform.control(f"{dialect.key}/transfers/{REFERENCE}/approve", {})
    await settled(platform, dialect, dialect.success)


@every_dialect
async def test_a_delivered_transfer_can_come_back(platform: Platform, dialect: Dialect) -> None:
    await dialect.transfer(platform, REFERENCE)
    await settled(platform, dialect, dialect.success)
    await platform.control(f"{dialect.key}/transfers/{REFERENCE}/settle", {"status": "reversed"})
    assert await dialect.transfer_status(platform, REFERENCE) == dialect.reversed
    assert await platform.available(dialect.key) == OPENING


@every_dialect
@pytest.mark.parametrize(
    ("fault", "accepted"), [("timeout_before", False), ("timeout_after_accept", True)]
)
async def test_a_timeout_does_not_tell_whether_the_transfer_exists(
    platform: Platform, dialect: Dialect, fault: str, accepted: bool
) -> None:
    await plan(platform, dialect, fault)
    await platform.hangs(dialect.key, dialect.transfer(platform, REFERENCE))
    assert await exists(platform, dialect) is accepted


@every_dialect
@pytest.mark.parametrize(("fault", "accepted"), [("5xx_before", False), ("5xx_after_accept", True)])
async def test_a_5xx_does_not_tell_whether_the_transfer_exists(
    platform: Platform, dialect: Dialect, fault: str, accepted: bool
) -> None:
    await plan(platform, dialect, fault, message="Internal error")
    reply = await dialect.transfer(platform, REFERENCE)
    assert dialect.refusal(reply) == (502, "Internal error")
    assert await exists(platform, dialect) is accepted


@every_dialect
async def test_a_connection_breaks_after_the_transfer_was_accepted(
    platform: Platform, dialect: Dialect
) -> None:
    await plan(platform, dialect, "reset_after_accept")
    with pytest.raises(aiohttp.ClientError):
        await dialect.transfer(platform, REFERENCE)
    assert await exists(platform, dialect)


@every_dialect
async def test_an_answer_that_cannot_be_parsed(platform: Platform, dialect: Dialect) -> None:
    await plan(platform, dialect, "garbage_after_accept")
    reply = await dialect.transfer(platform, REFERENCE)
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        _ = reply.json
    assert await exists(platform, dialect)


@every_dialect
async def test_every_documented_refusal_can_be_requested(
    platform: Platform, dialect: Dialect
) -> None:
    refusals = (await platform.control("state"))[dialect.key]["refusals"]
    assert len(refusals) >= 8
    for refusal in refusals:
        await plan(platform, dialect, "refuse", message=refusal["message"])
        reply = await dialect.transfer(platform, REFERENCE)
        assert dialect.refusal(reply)[1] == refusal["message"]
        assert not await exists(platform, dialect)


@every_dialect
async def test_a_forged_webhook_is_not_signed_with_the_account_secret(
    platform: Platform, dialect: Dialect
) -> None:
    await platform.control(f"{dialect.key}/faults", {"webhooks": {"mode": "forge"}})
    await dialect.transfer(platform, REFERENCE)
    (forged,) = await platform.webhooks(1)
    assert not dialect.is_signed(forged)


@every_dialect
async def test_webhooks_go_to_the_url_of_the_account_and_are_retried(
    platform: Platform, dialect: Dialect
) -> None:
    url = f"{platform.url}/hooks/elsewhere"
    await platform.control(f"{dialect.key}/account", {"webhook_url": url})
    platform.answers = [500]
    await dialect.transfer(platform, REFERENCE)
    received = await platform.webhooks(2)
    assert {each.path for each in received} == {"/hooks/elsewhere"}
    assert len({each.raw for each in received}) == 1


@every_dialect
async def test_an_account_can_get_another_secret_key(platform: Platform, dialect: Dialect) -> None:
    await platform.control(f"{dialect.key}/account", {"secret_key": "another"})
    reply = await dialect.call(platform, "GET", dialect.balance_path)
    assert reply.status == 401
    reply = await platform.send("POST", f"/control/api/{dialect.key}/account", {"colour": "red"})
    assert reply.status == 400


@every_dialect
@pytest.mark.parametrize(("card", "is_paid"), [("approved", True), ("declined", False)])
async def test_a_customer_pays_or_is_declined_on_the_hosted_page(
    platform: Platform, dialect: Dialect, card: str, is_paid: bool
) -> None:
    address = await dialect.open_hosted(platform, "TXN0001-1")
    page = address.removeprefix(platform.simulator)
    shown = await platform.send("GET", page)
    assert (shown.status, b"1,000.00" in shown.body) == (200, True)
    await platform.send("POST", page, f"action=pay&card={card}".encode(), FORM)
    status = await dialect.charge_status(platform, "TXN0001-1")
    assert status == (dialect.charge_paid if is_paid else dialect.charge_failed)
    receipt = await platform.send("GET", f"{page}/receipt")
    link = receipt.body.decode().replace("&amp;", "&")
    if is_paid:
        assert f"{platform.url}/back?order=7&{dialect.return_query}" in link
        (webhook,) = await platform.webhooks(1)
        assert dialect.is_signed(webhook)


@every_dialect
async def test_a_customer_transfers_to_a_one_time_account(
    platform: Platform, dialect: Dialect
) -> None:
    account = await dialect.open_account(platform, "TXN0001-1")
    reply = await platform.send("POST", f"/bank/{account}", b"choice=exact", FORM)
    assert reply.status == 200
    assert await dialect.charge_status(platform, "TXN0001-1") == dialect.charge_paid
    await platform.webhooks(1)


@every_dialect
async def test_the_statement_explains_the_balance(platform: Platform, dialect: Dialect) -> None:
    await dialect.open_hosted(platform, "TXN0001-1")
    await platform.control(f"{dialect.key}/charges/TXN0001-1/pay", {})
    reply = await dialect.refund(platform, "TXN0001-1", "txn0000000000000009")
    assert reply.status == 200, reply.body
    await dialect.transfer(platform, REFERENCE)
    await settled(platform, dialect, dialect.success)
    await until_true(lambda: len(platform.received) >= 2)
    cost = 1000 + await fee(platform, dialect)
    charges = (await platform.control(f"{dialect.key}/charges"))["charges"]
    credited = Decimal(charges[0]["amount_paid"]) - Decimal(charges[0]["fee"])
    expected = OPENING + credited - Decimal("400.50") - cost
    assert await platform.available(dialect.key) == expected


@every_dialect
async def test_the_control_page_shows_the_provider(platform: Platform, dialect: Dialect) -> None:
    await dialect.transfer(platform, REFERENCE)
    page = await platform.send("GET", f"/control/{dialect.key}")
    assert page.status == 200
    assert REFERENCE.encode() in page.body
    assert (await platform.send("GET", f"/static/{dialect.key}.svg")).status == 200


@every_dialect
async def test_the_control_page_changes_the_account(platform: Platform, dialect: Dialect) -> None:
    account = (await platform.control("state"))[dialect.key]["account"]
    form = {name: "on" if value is True else value for name, value in account.items() if value}
    form |= {"secret_key": "new", "webhook_url": f"{platform.url}/new"}
    raw = urlencode(form).encode()
    reply = await platform.send("POST", f"/control/{dialect.key}/account", raw, FORM)
    assert reply.status == 303
    changed = (await platform.control("state"))[dialect.key]["account"]
    assert changed == {**account, "secret_key": "new", "webhook_url": f"{platform.url}/new"}


@every_dialect
async def test_a_field_that_the_provider_does_not_know_is_refused(
    platform: Platform, dialect: Dialect
) -> None:
    await dialect.open_hosted(platform, "TXN0001-1")
    (request,) = (await platform.control(f"{dialect.key}/requests?limit=1"))["requests"]
    body = request["body"].replace("{", '{"refrence": "x", ', 1).encode()
    path = request["path"].removeprefix(f"/{dialect.key}")
    reply = await dialect.call(platform, "POST", path, body)
    assert reply.status == 400
    assert "refrence" in reply.body.decode()
