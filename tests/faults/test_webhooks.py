"""Signed webhooks that are about another provider, name another amount, or come again and again."""

import asyncio
import json
from typing import Any

import pytest

from manilla.kit import metrics
from manilla.kit.db import Database
from manilla.payments import refunds
from manilla.payments.story import payment_story
from manilla.providers import inbox
from tests.client import Site
from tests.faults import news
from tests.payments import webhooks
from tests.payments.shop import Shop
from tests.payouts.desk import Desk

RAILS = ["a", "b", "c"]
OTHERS = [(own, other) for own in RAILS for other in RAILS if own != other]
FULL, DEBITED = 1_000_000, 900_000


@pytest.fixture(autouse=True)
async def _providers_send_nothing(desk: Desk, db: Database) -> None:
    mine = desk.merchant.new.id
    await db.execute("UPDATE job SET due_at = 'infinity' WHERE merchant_id <> $1", mine)
    for rail in RAILS:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await desk.world.control(f"{rail}/faults", quiet)


@pytest.fixture
def shop(desk: Desk) -> Shop:
    return Shop(desk.services, desk.world, desk.merchant)


async def _sent(desk: Desk, rail: str) -> str:
    trx_id = await desk.pay_out(rail)
    await desk.world.run_jobs()
    assert [each["reference"] for each in await desk.transfers(rail)] == [trx_id]
    return trx_id


async def _deliver(site: Site, rail: str, message: Any) -> None:
    assert (await webhooks.send(site, f"provider{rail}", message)).status == 200


async def _pass_time(desk: Desk, trx_id: str) -> None:
    """Long enough for every limit per transaction to be over."""
    await desk.services.db.execute(
        """
        UPDATE webhook SET last_received_at = last_received_at - interval '1 hour',
               query_due_at = query_due_at - interval '1 hour'
         WHERE merchant_id = $1 AND reference LIKE $2 || '%'""",
        *(desk.merchant.new.id, trx_id),
    )


async def _is_due(desk: Desk, kind: str, reference: str) -> bool:
    return bool(
        await desk.services.db.value(
            """
            SELECT true FROM job WHERE (merchant_id, kind, subject) = ($1, $2, $3)
               AND due_at <= now()""",
            *(desk.merchant.new.id, kind, reference),
        )
    )


def _ignored(rail: str) -> float:
    value = metrics.webhooks.labels(f"provider{rail}", "ignored")._value.get()
    return float(value)


def _transfer_by(rail: str, trx_id: str, status: str, **data: Any) -> Any:
    """As this provider writes it; B's contract has none, so that it sends one about a charge."""
    if rail == "b":
        return webhooks.paid("providerb", trx_id)
    document = json.loads(news.transfer(rail, trx_id, status))
    document["data"] |= data
    return document


@pytest.mark.parametrize(("own", "other"), OTHERS)
async def test_a_webhook_about_another_providers_charge_is_stored_counted_and_ignored(
    desk: Desk, shop: Shop, site: Site, own: str, other: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, f"provider{own}-ngn")
    before = _ignored(other)
    for amount in ("1000.00", "1.00"):
        message = webhooks.paid(f"provider{other}", charge.reference, amount)
        await _deliver(site, other, message)
    assert _ignored(other) == before + 2
    assert not await _is_due(desk, "charge", charge.reference)
    stored = "SELECT count(*) FROM webhook WHERE reference = $1 AND query_due_at IS NULL"
    assert await desk.services.db.value(stored, charge.reference) == 2
    story = await payment_story(desk.services.db, desk.merchant.new.id, started.trx_id)
    assert story is not None
    assert story.webhooks == []

    await shop.pay(charge)
    await desk.world.run_job_now("charge", charge.reference)
    assert await shop.status(started) == "success"
    assert await shop.balance() == FULL + 100_000
    assert await shop.cases() == []


@pytest.mark.parametrize(("own", "other"), [each for each in OTHERS if each[1] != "b"])
@pytest.mark.parametrize("status", ["success", "failed", "reversed"])
async def test_a_webhook_about_another_providers_transfer_is_ignored(
    desk: Desk, site: Site, own: str, other: str, status: str
) -> None:
    trx_id = await _sent(desk, own)
    before = _ignored(other)
    await _deliver(site, other, _transfer_by(other, trx_id, status, amount=1))
    assert _ignored(other) == before + 1
    assert not await _is_due(desk, "transfer", trx_id)

    await desk.settle(own, trx_id, "success")
    await desk.check_now(trx_id)
    assert (await desk.payout(trx_id)).status == "completed"
    assert await desk.cases() == []


async def test_a_webhook_about_another_providers_refund_is_ignored(
    desk: Desk, shop: Shop, site: Site
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providerc-ngn")
    await shop.pay(charge)
    await desk.world.run_job_now("charge", charge.reference)
    refund = await refunds.start(desk.services.db, started.trx_id, None, "Returned goods")
    await desk.services.db.execute("UPDATE job SET due_at = 'infinity' WHERE kind = 'refund'")
    data = {"reference": refund.trx_id, "status": "success", "amount": 1000, "currency": "NGN"}
    await _deliver(site, "a", {"event": "refund.success", "data": data})
    assert not await _is_due(desk, "refund", refund.trx_id)


WRONG = [
    {"amount": 999.99},
    {"amount": 1000.01},
    {"amount": -1000},
    {"amount": "a thousand"},
    {"amount": 1e300},
    {"currency": "USD"},
    {"currency": "XYZ"},
    {"currency": 566},
]


@pytest.mark.parametrize("rail", news.TELLING)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("status", ["success", "failed"])
async def test_a_transfer_webhook_of_another_amount_or_currency_is_a_case_and_settles_nothing(
    desk: Desk, site: Site, rail: str, wrong: dict[str, Any], status: str
) -> None:
    trx_id = await _sent(desk, rail)
    await desk.settle(rail, trx_id, status)
    await _deliver(site, rail, _transfer_by(rail, trx_id, status, **wrong))
    await desk.world.run_jobs()
    assert (await desk.payout(trx_id)).status == "pending"
    assert await desk.balance() == DEBITED
    assert await desk.cases() == [("webhook_disagrees", trx_id)]

    # The provider says the same when it is asked again, on schedule: its own answer decides.
    await _pass_time(desk, trx_id)
    await desk.check_now(trx_id)
    expected = {"success": ("completed", DEBITED), "failed": ("failed", FULL)}[status]
    assert ((await desk.payout(trx_id)).status, await desk.balance()) == expected
    assert await desk.cases() == [("webhook_disagrees", trx_id)]


@pytest.mark.parametrize("rail", news.TELLING)
async def test_a_wrong_amount_in_a_webhook_is_a_case_also_while_the_transfer_is_open(
    desk: Desk, site: Site, rail: str
) -> None:
    trx_id = await _sent(desk, rail)
    await _deliver(site, rail, _transfer_by(rail, trx_id, "success", amount=5))
    await desk.world.run_jobs()
    assert (await desk.payout(trx_id)).status == "pending"
    assert await desk.cases() == [("webhook_disagrees", trx_id)]


@pytest.mark.parametrize("rail", news.TELLING)
async def test_a_reversal_whose_webhook_names_another_amount_waits_for_a_second_answer(
    desk: Desk, site: Site, rail: str
) -> None:
    trx_id = await _sent(desk, rail)
    await desk.settle(rail, trx_id, "success")
    await desk.check_now(trx_id)
    await desk.settle(rail, trx_id, "reversed")
    await _deliver(site, rail, _transfer_by(rail, trx_id, "reversed", amount=5))
    await desk.world.run_jobs()
    assert ((await desk.payout(trx_id)).status, await desk.balance()) == ("completed", DEBITED)
    await _pass_time(desk, trx_id)
    await desk.check_now(trx_id)
    assert ((await desk.payout(trx_id)).status, await desk.balance()) == ("failed", FULL)
    assert await desk.cases() == [("webhook_disagrees", trx_id)]


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize("wrong", WRONG)
async def test_a_charge_webhook_that_cannot_be_read_as_the_amount_is_reviewed_not_credited(
    desk: Desk, shop: Shop, site: Site, rail: str, wrong: dict[str, Any]
) -> None:
    charge = await shop.choose(await shop.start(), f"provider{rail}-ngn")
    await shop.pay(charge)
    message = webhooks.paid(f"provider{rail}", charge.reference)
    message["order" if rail == "b" else "data"] |= wrong
    await _deliver(site, rail, message)
    await desk.world.run_jobs()
    assert (await shop.charge(charge)).status == "suspense"
    assert await shop.balance() == FULL
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]


async def test_a_failed_charge_webhook_of_another_amount_is_a_case_and_holds_back_no_credit(
    desk: Desk, shop: Shop, site: Site
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    message = webhooks.paid("providera", charge.reference, "5.00") | {"event": "charge.failed"}
    await _deliver(site, "a", message)
    await desk.world.run_jobs()
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]
    await shop.pay(charge)
    await desk.world.run_job_now("charge", charge.reference)
    assert await shop.status(started) == "success"


@pytest.mark.parametrize("wrong", [{"amount": 1}, {"currency": "USD"}])
async def test_a_refund_webhook_of_another_amount_or_currency_is_a_case_and_settles_nothing(
    desk: Desk, shop: Shop, site: Site, wrong: dict[str, Any]
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await desk.world.run_job_now("charge", charge.reference)
    await desk.world.control("a/faults", {"refunds": "pending"})
    refund = await refunds.start(desk.services.db, started.trx_id, None, "Returned goods")
    await desk.world.run_jobs()
    data = {"reference": refund.trx_id, "status": "success", "amount": 1000, "currency": "NGN"}
    await _deliver(site, "a", {"event": "refund.success", "data": data | wrong})
    await desk.world.run_jobs()
    assert (await refunds.find(desk.services.db, refund.trx_id)).status == "pending"
    assert await shop.cases() == [("webhook_disagrees", refund.trx_id)]


async def _asked(desk: Desk, rail: str, call: str) -> int:
    return (await desk.calls(rail)).count(call)


@pytest.mark.parametrize("rail", news.TELLING)
async def test_the_same_bytes_again_make_us_ask_again(desk: Desk, site: Site, rail: str) -> None:
    trx_id = await _sent(desk, rail)
    message = news.transfer(rail, trx_id, "success")
    for times in range(1, 6):
        await _deliver(site, rail, message)
        await desk.world.run_jobs()
        assert await _asked(desk, rail, "transfer_status") == times
        await _pass_time(desk, trx_id)
        if times == 4:
            assert (await desk.payout(trx_id)).status == "pending"
            await desk.settle(rail, trx_id, "success")
    assert (await desk.payout(trx_id)).status == "completed"
    assert await desk.cases() == []


async def test_a_provider_that_changes_its_mind_between_copies_is_believed_once(
    desk: Desk, site: Site
) -> None:
    trx_id = await _sent(desk, "a")
    message = news.transfer("a", trx_id, "success")
    for status in ("success", "failed", "success", "failed", "success"):
        await desk.settle("a", trx_id, status, insist=True)
        await _deliver(site, "a", message)
        await desk.world.run_jobs()
        await _pass_time(desk, trx_id)
    assert ((await desk.payout(trx_id)).status, await desk.balance()) == ("completed", DEBITED)
    assert await desk.cases() == [("contradiction", trx_id)]
    assert len(await desk.notifications(trx_id)) == 1


async def test_copies_in_one_moment_are_one_query_now_and_one_later(desk: Desk, site: Site) -> None:
    trx_id = await _sent(desk, "a")
    await _deliver(site, "a", news.transfer("a", trx_id, "success"))
    await desk.world.run_jobs()
    assert await _asked(desk, "a", "transfer_status") == 1
    copies = [news.transfer("a", trx_id, "success", n=n % 3) for n in range(12)]
    await asyncio.gather(*(_deliver(site, "a", copy) for copy in copies))
    await desk.world.run_jobs()
    assert await _asked(desk, "a", "transfer_status") == 1

    async def was_asked_again() -> bool:
        return await _asked(desk, "a", "transfer_status") == 2

    await desk.world.until(was_asked_again)
    assert inbox.QUERY_INTERVAL_SECONDS < 10


async def test_a_copy_that_arrives_while_we_ask_makes_us_ask_again(desk: Desk, site: Site) -> None:
    trx_id = await _sent(desk, "a")
    message = news.transfer("a", trx_id, "success")
    await desk.world.control("a/faults", {"latency_seconds": 1})
    await _deliver(site, "a", message)
    asking = asyncio.create_task(desk.world.run_jobs())
    leased = "SELECT true FROM job WHERE subject = $1 AND leased_until > now()"
    while not await desk.services.db.value(leased, trx_id):
        await asyncio.sleep(0.01)
    await _deliver(site, "a", message)
    await asking
    await desk.world.control("a/faults", {"latency_seconds": 0})

    async def was_asked_again() -> bool:
        return await _asked(desk, "a", "transfer_status") == 2

    await desk.world.until(was_asked_again)
