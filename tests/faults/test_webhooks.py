"""Signed webhooks that are repeated, have a wrong amount, or name another provider's transaction.

These tests cover row 17 of docs/faults.md. `tests/support/kinds.py` lists the differences between
provider kinds.
"""

import asyncio
from typing import Any

import pytest

from manilla import metrics
from manilla.kit.database.connections import Database
from manilla.lookup.story import payment_story
from manilla.refunds import decisions, initiate
from tests.faults import transfer_webhooks
from tests.payments import webhooks
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support import kinds
from tests.support.client import Site
from tests.support.rows import first_short

RAILS = kinds.ALL
TELLING = kinds.WITH_TRANSFER_WEBHOOKS
# Each pair has the provider kind of the transaction, and the provider kind that sends the webhook.
OTHERS = [(own, RAILS[number - 1]) for number, own in enumerate(RAILS)] + [
    (RAILS[number - 1], own) for number, own in enumerate(RAILS)
]
FULL, DEBITED = 1_000_000, 900_000


@pytest.fixture(autouse=True)
async def _providers_send_nothing(payer: PayoutMerchant, db: Database) -> None:
    mine = payer.merchant.new.id
    await db.execute("UPDATE job SET due_at = 'infinity' WHERE merchant_id <> $1", mine)
    for rail in RAILS:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await payer.simulator.control(f"{rail}/faults", quiet)


async def _sent(payer: PayoutMerchant, rail: str) -> str:
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    [transfer] = await payer.transfers(rail)
    assert transfer["reference"] == kinds.BY_RAIL[rail].reference(trx_id)
    return trx_id


async def _deliver(site: Site, rail: str, message: Any) -> None:
    assert (await webhooks.send(site, kinds.BY_RAIL[rail].provider, message)).status == 200


async def _pass_time(payer: PayoutMerchant, trx_id: str) -> None:
    """Makes the transaction's webhooks an hour older, so that another status query is allowed."""
    await payer.services.db.execute(
        """
        UPDATE webhook SET last_received_at = last_received_at - interval '1 hour',
               query_due_at = query_due_at - interval '1 hour'
         WHERE merchant_id = $1 AND reference LIKE $2 || '%'""",
        *(payer.merchant.new.id, trx_id),
    )


async def _extend_interval(payer: PayoutMerchant, trx_id: str) -> None:
    """Postpones the next status query by an hour, so that it is not due even on a slow machine."""
    await payer.services.db.execute(
        """
        UPDATE webhook SET query_due_at = now() + interval '1 hour'
         WHERE merchant_id = $1 AND reference = $2""",
        *(payer.merchant.new.id, trx_id),
    )


async def _is_due(payer: PayoutMerchant, kind: str, reference: str) -> bool:
    return bool(
        await payer.services.db.value(
            """
            SELECT true FROM job WHERE (merchant_id, kind, subject) = ($1, $2, $3)
               AND due_at <= now()""",
            *(payer.merchant.new.id, kind, reference),
        )
    )


def _ignored(rail: str) -> float:
    value = metrics.webhooks.labels(kinds.BY_RAIL[rail].provider, "ignored")._value.get()
    return float(value)


@pytest.mark.parametrize(("own", "other"), first_short(OTHERS))
async def test_a_webhook_about_another_providers_charge_is_stored_and_ignored(
    payer: PayoutMerchant, shop: Shop, site: Site, own: str, other: str
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, kinds.BY_RAIL[own].checkout_method)
    before = _ignored(other)
    for amount in ("1000.00", "1.00"):
        message = webhooks.paid(kinds.BY_RAIL[other].provider, charge.reference, amount)
        await _deliver(site, other, message)
    assert _ignored(other) == before + 2
    assert not await _is_due(payer, "charge", charge.reference)
    stored = "SELECT count(*) FROM webhook WHERE reference = $1 AND query_due_at IS NULL"
    assert await payer.services.db.value(stored, charge.reference) == 2
    story = await payment_story(payer.services.db, payer.merchant.new.id, started.trx_id)
    assert story is not None
    assert story.webhooks == []

    await shop.pay(charge)
    await payer.simulator.run_job_now("charge", charge.reference)
    assert await shop.status(started) == "success"
    assert await shop.balance() == FULL + 100_000
    assert await shop.cases() == []


@pytest.mark.parametrize(
    ("own", "other"), first_short(each for each in OTHERS if each[1] in TELLING)
)
@pytest.mark.parametrize("status", first_short(["success", "failed", "reversed"]))
async def test_a_webhook_about_another_providers_transfer_is_ignored(
    payer: PayoutMerchant, site: Site, own: str, other: str, status: str
) -> None:
    trx_id = await _sent(payer, own)
    before = _ignored(other)
    await _deliver(site, other, transfer_webhooks.transfer(other, trx_id, status, 1))
    assert _ignored(other) == before + 1
    assert not await _is_due(payer, "transfer", trx_id)

    await payer.settle(own, trx_id, "success")
    await payer.check_now(trx_id)
    assert (await payer.payout(trx_id)).status == "completed"
    assert await payer.cases() == []


async def test_a_webhook_about_another_providers_refund_is_ignored(
    payer: PayoutMerchant, shop: Shop, site: Site
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providerc-ngn")
    await shop.pay(charge)
    await payer.simulator.run_job_now("charge", charge.reference)
    refund = await initiate.start(payer.services.db, started.trx_id, None, "Returned goods")
    await payer.services.db.execute("UPDATE job SET due_at = 'infinity' WHERE kind = 'refund'")
    data = {"reference": refund.trx_id, "status": "success", "amount": 1000, "currency": "NGN"}
    await _deliver(site, "a", {"event": "refund.success", "data": data})
    assert not await _is_due(payer, "refund", refund.trx_id)


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


@pytest.mark.parametrize("rail", first_short(TELLING))
@pytest.mark.parametrize(
    ("wrong", "status"),
    first_short(
        [*((wrong, "success") for wrong in WRONG), (WRONG[0], "failed"), (WRONG[5], "failed")],
        of_each=lambda row: row[1],
    ),
)
async def test_a_transfer_webhook_with_a_wrong_amount_opens_a_case_and_settles_nothing(
    payer: PayoutMerchant, site: Site, rail: str, wrong: dict[str, Any], status: str
) -> None:
    trx_id = await _sent(payer, rail)
    await payer.settle(rail, trx_id, status)
    await _deliver(site, rail, kinds.BY_RAIL[rail].transfer(trx_id, status, **wrong))
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.balance() == DEBITED
    assert await payer.cases() == [("webhook_disagrees", trx_id)]
    assert await payer.last_answer(trx_id) == {"success": "delivered"}.get(status, status)

    # The next scheduled status query returns the webhook's status and settles the payout.
    await _pass_time(payer, trx_id)
    await payer.check_now(trx_id)
    expected = {"success": ("completed", DEBITED), "failed": ("failed", FULL)}[status]
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == expected
    assert await payer.cases() == [("webhook_disagrees", trx_id)]


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_wrong_amount_in_a_webhook_opens_a_case_while_the_transfer_is_open(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _sent(payer, rail)
    await _deliver(site, rail, transfer_webhooks.transfer(rail, trx_id, "success", 5))
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.cases() == [("webhook_disagrees", trx_id)]


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_reversal_webhook_with_a_wrong_amount_waits_for_a_second_answer(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _sent(payer, rail)
    await payer.settle(rail, trx_id, "success")
    await payer.check_now(trx_id)
    word, _ = kinds.BY_RAIL[rail].reversals[-1]
    await payer.settle(rail, trx_id, "reversed", provider_status=word)
    await _deliver(site, rail, transfer_webhooks.transfer(rail, trx_id, "reversed", 5))
    await payer.simulator.run_jobs()
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("completed", DEBITED)
    await _pass_time(payer, trx_id)
    await payer.check_now(trx_id)
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("failed", FULL)
    assert await payer.cases() == [("webhook_disagrees", trx_id)]


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize("wrong", first_short(WRONG))
async def test_a_charge_webhook_with_an_unreadable_amount_is_held_for_review(
    payer: PayoutMerchant, shop: Shop, site: Site, rail: str, wrong: dict[str, Any]
) -> None:
    kind = kinds.BY_RAIL[rail]
    charge = await shop.choose(await shop.start(), kind.checkout_method)
    await shop.pay(charge)
    await _deliver(site, rail, kind.paid(charge.reference, **wrong))
    await payer.simulator.run_jobs()
    assert (await shop.charge(charge)).status == "suspense"
    assert await shop.balance() == FULL
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]


async def test_a_failed_charge_webhook_with_a_wrong_amount_opens_a_case_and_blocks_no_credit(
    payer: PayoutMerchant, shop: Shop, site: Site
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    message = webhooks.paid("providera", charge.reference, "5.00") | {"event": "charge.failed"}
    await _deliver(site, "a", message)
    await payer.simulator.run_jobs()
    assert await shop.cases() == [("webhook_disagrees", charge.reference)]
    await shop.pay(charge)
    await payer.simulator.run_job_now("charge", charge.reference)
    assert await shop.status(started) == "success"


@pytest.mark.parametrize("wrong", first_short([{"amount": 1}, {"currency": "USD"}]))
async def test_a_refund_webhook_with_a_wrong_amount_opens_a_case_and_settles_nothing(
    payer: PayoutMerchant, shop: Shop, site: Site, wrong: dict[str, Any]
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await payer.simulator.run_job_now("charge", charge.reference)
    await payer.simulator.control("a/faults", {"refunds": "pending"})
    refund = await initiate.start(payer.services.db, started.trx_id, None, "Returned goods")
    await payer.simulator.run_jobs()
    data = {"reference": refund.trx_id, "status": "success", "amount": 1000, "currency": "NGN"}
    await _deliver(site, "a", {"event": "refund.success", "data": data | wrong})
    await payer.simulator.run_jobs()
    assert (await decisions.find(payer.services.db, refund.trx_id)).status == "pending"
    assert await shop.cases() == [("webhook_disagrees", refund.trx_id)]


async def _query_count(payer: PayoutMerchant, rail: str, call: str) -> int:
    return (await payer.calls(rail)).count(call)


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_repeated_webhook_causes_a_new_status_query(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _sent(payer, rail)
    message = transfer_webhooks.transfer(rail, trx_id, "success")
    for times in range(1, 6):
        await _deliver(site, rail, message)
        await payer.simulator.run_jobs()
        assert await _query_count(payer, rail, "transfer_status") == times
        await _pass_time(payer, trx_id)
        if times == 4:
            assert (await payer.payout(trx_id)).status == "pending"
            await payer.settle(rail, trx_id, "success")
    assert (await payer.payout(trx_id)).status == "completed"
    assert await payer.cases() == []


async def test_a_provider_whose_answers_contradict_is_applied_once(
    payer: PayoutMerchant, site: Site
) -> None:
    trx_id = await _sent(payer, "a")
    message = transfer_webhooks.transfer("a", trx_id, "success")
    for status in ("success", "failed", "success", "failed", "success"):
        await payer.settle("a", trx_id, status, insist=True)
        await _deliver(site, "a", message)
        await payer.simulator.run_jobs()
        await _pass_time(payer, trx_id)
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("completed", DEBITED)
    assert await payer.cases() == [("contradiction", trx_id)]
    assert len(await payer.notifications(trx_id)) == 1


async def test_simultaneous_copies_cause_one_query_now_and_one_later(
    payer: PayoutMerchant, site: Site
) -> None:
    trx_id = await _sent(payer, "a")
    await _deliver(site, "a", transfer_webhooks.transfer("a", trx_id, "success"))
    await payer.simulator.run_jobs()
    assert await _query_count(payer, "a", "transfer_status") == 1
    await _extend_interval(payer, trx_id)
    copies = [transfer_webhooks.transfer("a", trx_id, "success", n=n % 3) for n in range(12)]
    await asyncio.gather(*(_deliver(site, "a", copy) for copy in copies))
    await payer.simulator.run_jobs()
    assert await _query_count(payer, "a", "transfer_status") == 1

    await payer.services.db.execute("UPDATE job SET due_at = now() WHERE subject = $1", trx_id)
    await payer.simulator.run_jobs()
    assert await _query_count(payer, "a", "transfer_status") == 2


async def test_a_copy_during_a_status_query_causes_another_query(
    payer: PayoutMerchant, site: Site
) -> None:
    trx_id = await _sent(payer, "a")
    message = transfer_webhooks.transfer("a", trx_id, "success")
    await payer.simulator.control("a/faults", {"latency_seconds": 1})
    await _deliver(site, "a", message)
    asking = asyncio.create_task(payer.simulator.run_jobs())
    leased = "SELECT true FROM job WHERE subject = $1 AND leased_until > now()"
    while not await payer.services.db.value(leased, trx_id):
        await asyncio.sleep(0.01)
    await _deliver(site, "a", message)
    await asking
    await payer.simulator.control("a/faults", {"latency_seconds": 0})

    async def was_asked_again() -> bool:
        return await _query_count(payer, "a", "transfer_status") == 2

    await payer.simulator.until(was_asked_again)
