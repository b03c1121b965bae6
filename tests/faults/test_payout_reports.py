"""Providers that respond late, wrongly, twice, or contradict an earlier report.

The numbers in the test names refer to docs/faults.md.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.db import Database
from manilla.payouts import reconcile
from manilla.providers import wire
from manilla.providers.port import Direction
from tests.client import Site
from tests.faults import transfer_webhooks
from tests.faults.stalled_worker import StalledWorker, Step
from tests.payouts.payout_merchant import PayoutMerchant

RAILS = ["a", "b", "c"]
FULL, DEBITED = 1_000_000, 900_000


@pytest.fixture(autouse=True)
async def _settle_on_command_without_webhooks(payer: PayoutMerchant, db: Database) -> None:
    """Makes the provider settle only on command and send no webhooks.

    Postpones the jobs of other tests.
    """
    mine = payer.merchant.new.id
    await db.execute("UPDATE job SET due_at = 'infinity' WHERE merchant_id <> $1", mine)
    await db.execute("UPDATE payout SET updated_at = created_at - interval '2 days'")
    for rail in RAILS:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await payer.simulator.control(f"{rail}/faults", quiet)


@pytest.fixture(autouse=True)
async def _every_rail_is_up(payer: PayoutMerchant) -> AsyncIterator[None]:
    yield
    for rail in payer.services.rails.health.rails_down():
        await payer.services.rails.health.mark_up(rail)


async def _problems(payer: PayoutMerchant, rail: str, *planned: dict[str, Any]) -> None:
    await payer.simulator.control(f"{rail}/faults", {"next": list(planned)})


async def _settle(
    payer: PayoutMerchant, rail: str, trx_id: str, status: str, *, insist: bool = False
) -> None:
    how = {"status": status, "insist": insist}
    await payer.simulator.control(f"{rail}/transfers/{trx_id}/settle", how)


async def _sent(payer: PayoutMerchant, rail: str = "a") -> str:
    """Creates a payout that the provider has accepted."""
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    assert len(await payer.transfers(rail)) == 1
    return trx_id


async def _ended(payer: PayoutMerchant, rail: str, status: str) -> str:
    """Creates a payout whose outcome a status query found."""
    trx_id = await _sent(payer, rail)
    await _settle(payer, rail, trx_id, status)
    await payer.check_now(trx_id)
    expected = "completed" if status == "success" else "failed"
    assert (await payer.payout(trx_id)).status == expected
    return trx_id


async def _is(
    payer: PayoutMerchant, trx_id: str, status: str, balance: int, *notified: str
) -> None:
    """Checks the status, the balance, and the notification messages sent to the merchant."""
    assert (await payer.payout(trx_id)).status == status
    assert await payer.balance() == balance
    assert [each["message"] for each in await payer.notifications(trx_id)] == list(notified)


async def _is_paid_once(payer: PayoutMerchant, rail: str, trx_id: str) -> None:
    found = [(t["reference"], t["amount"], t["duplicates"]) for t in await payer.transfers(rail)]
    assert found == [(trx_id, 1000, 0)]


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize("outcome", ["success", "failed"])
@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "timeout_after_accept"},
        {"fault": "5xx_after_accept"},
        {"fault": "5xx_after_accept", "status": 500, "message": "Insufficient funds"},
        {"fault": "reset_after_accept"},
        {"fault": "garbage_after_accept"},
    ],
)
async def test_10_11_a_lost_response_to_an_accepted_send_is_not_a_refusal(
    payer: PayoutMerchant,
    monkeypatch: pytest.MonkeyPatch,
    rail: str,
    fault: dict[str, Any],
    outcome: str,
) -> None:
    monkeypatch.setattr(wire, "CALL_SECONDS", 0.3)
    await _problems(payer, rail, {"call": "transfer", **fault})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "pending", DEBITED)
    assert (await payer.verify(trx_id)).json["status"] == "pending"
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "pending", DEBITED)

    await _settle(payer, rail, trx_id, outcome)
    await payer.check_now(trx_id)
    if outcome == "success":
        await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")
    else:
        await _is(payer, trx_id, "failed", FULL, "Payout Failed")
    await _is_paid_once(payer, rail, trx_id)
    assert await payer.cases() == []


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize(
    "fault",
    [
        {"fault": "timeout_before"},
        {"fault": "5xx_before"},
        {"fault": "reset"},
        {"fault": "refuse", "status": 401, "message": "Unauthorized"},
        {"fault": "refuse", "status": 408, "message": "Request Timeout"},
        {"fault": "refuse", "status": 429, "message": "Too many requests"},
        {"fault": "refuse", "status": 409, "message": "Duplicate Transaction Reference"},
        {"fault": "refuse", "status": 400, "message": "Transfer reference already exists"},
    ],
)
async def test_10_a_send_that_never_arrived_is_sent_again_under_its_reference(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch, rail: str, fault: dict[str, Any]
) -> None:
    monkeypatch.setattr(wire, "CALL_SECONDS", 0.3)
    await _problems(payer, rail, {"call": "transfer", **fault})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "pending", DEBITED)
    assert await payer.transfers(rail) == []
    await payer.check_now(trx_id)
    await _is_paid_once(payer, rail, trx_id)
    await _settle(payer, rail, trx_id, "success")
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")


@pytest.mark.parametrize("rail", RAILS)
async def test_10_a_refusal_after_an_unknown_send_ends_in_a_case_and_never_a_refund(
    payer: PayoutMerchant, db: Database, rail: str
) -> None:
    """The provider may be rejecting the second send while the first one is still in progress."""
    refusal = {"call": "transfer", "fault": "refuse", "status": 422, "message": "Refused"}
    lost = {"call": "transfer", "fault": "5xx_before"}
    await _problems(payer, rail, lost, {**refusal, "times": None})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    for _ in range(3):
        await payer.check_now(trx_id)
    await _is(payer, trx_id, "pending", DEBITED)
    assert await payer.cases() == []
    age = "UPDATE payout SET began_at = began_at - interval '25 hours' WHERE trx_id = $1"
    await db.execute(age, trx_id)
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "pending", DEBITED)
    assert await payer.cases() == [("no_answer", trx_id)]
    await _problems(payer, rail)
    await payer.check_now(trx_id)
    await _is_paid_once(payer, rail, trx_id)


@pytest.mark.parametrize("rail", RAILS)
async def test_12_a_provider_that_changes_delivered_to_failed_causes_a_case_and_no_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _ended(payer, rail, "success")
    await _settle(payer, rail, trx_id, "failed", insist=True)
    if rail in transfer_webhooks.RAILS_WITH_WEBHOOKS:
        await transfer_webhooks.send_webhook(
            site, rail, transfer_webhooks.transfer(rail, trx_id, "failed")
        )
        await payer.simulator.run_jobs()
    else:
        await reconcile.reconcile(payer.services.db, payer.services.rails)
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")
    assert await payer.cases() == [("contradiction", trx_id)]


@pytest.mark.parametrize("rail", transfer_webhooks.RAILS_WITH_WEBHOOKS)
async def test_12_a_failed_webhook_against_the_status_query_causes_a_case_and_no_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    """The status query still reports the transfer as delivered."""
    trx_id = await _ended(payer, rail, "success")
    reply = await transfer_webhooks.send_webhook(
        site, rail, transfer_webhooks.transfer(rail, trx_id, "failed")
    )
    assert reply.status == 200
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")
    assert [reference for _, reference in await payer.cases()] == [trx_id]


@pytest.mark.parametrize("rail", RAILS)
async def test_13_a_provider_that_changes_failed_to_delivered_causes_a_case_and_no_debit(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _ended(payer, rail, "failed")
    await _settle(payer, rail, trx_id, "success", insist=True)
    if rail in transfer_webhooks.RAILS_WITH_WEBHOOKS:
        await transfer_webhooks.send_webhook(
            site, rail, transfer_webhooks.transfer(rail, trx_id, "success")
        )
        await payer.simulator.run_jobs()
    else:
        await reconcile.reconcile(payer.services.db, payer.services.rails)
    await _is(payer, trx_id, "failed", FULL, "Payout Failed")
    assert await payer.cases() == [("contradiction", trx_id)]


@pytest.mark.parametrize("rail", transfer_webhooks.RAILS_WITH_WEBHOOKS)
async def test_13_a_success_webhook_against_the_status_query_causes_a_case_and_no_debit(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _ended(payer, rail, "failed")
    reply = await transfer_webhooks.send_webhook(
        site, rail, transfer_webhooks.transfer(rail, trx_id, "success")
    )
    assert reply.status == 200
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "failed", FULL, "Payout Failed")
    assert [reference for _, reference in await payer.cases()] == [trx_id]


@pytest.mark.parametrize("rail", transfer_webhooks.RAILS_WITH_WEBHOOKS)
async def test_14_a_hundred_concurrent_copies_of_a_failed_webhook_cause_one_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _sent(payer, rail)
    await _settle(payer, rail, trx_id, "failed")
    messages = [transfer_webhooks.transfer(rail, trx_id, "failed", n=n % 10) for n in range(100)]
    workers = [asyncio.create_task(_work_for_a_while(payer)) for _ in range(3)]
    replies = await asyncio.gather(
        *(transfer_webhooks.send_webhook(site, rail, message) for message in messages)
    )
    # On a busy machine a webhook may get 503; a real provider would send it again.
    assert {200} <= {reply.status for reply in replies} <= {200, 503}
    await asyncio.gather(*workers)
    await payer.until(trx_id, "failed")
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "failed", FULL, "Payout Failed")
    assert await payer.cases() == []


async def _work_for_a_while(payer: PayoutMerchant) -> None:
    for _ in range(15):
        await payer.simulator.run_jobs()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("rail", RAILS)
@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_19_a_webhook_that_arrives_before_we_save_the_send_is_matched_by_reference(
    payer: PayoutMerchant, site: Site, rail: str, outcome: str
) -> None:
    trx_id = await payer.pay_out(rail)
    slow = StalledWorker(payer.services, Step.BEFORE_SAVE)
    await slow.stall()
    await _settle(payer, rail, trx_id, outcome)
    if rail in transfer_webhooks.RAILS_WITH_WEBHOOKS:
        assert (
            await transfer_webhooks.send_webhook(
                site, rail, transfer_webhooks.transfer(rail, trx_id, outcome)
            )
        ).status == 200
    await payer.simulator.run_jobs()
    expected = (
        ("completed", DEBITED, "Payout Completed")
        if outcome == "success"
        else ("failed", FULL, "Payout Failed")
    )
    await _is(payer, trx_id, *expected)
    decided = await payer.payout(trx_id)
    await slow.resume()
    assert await payer.payout(trx_id) == decided
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, *expected)
    await _is_paid_once(payer, rail, trx_id)


async def test_20_webhook_status_query_and_reconciliation_together_cause_one_transition(
    payer: PayoutMerchant, site: Site
) -> None:
    """Uses provider A, which has both webhooks and a status query."""
    rounds = 20
    await payer.fund("20000")
    before = await payer.balance()
    for number in range(rounds):
        outcome = ("success", "failed")[number % 2]
        trx_id = await payer.pay_out()
        await payer.simulator.run_jobs()
        await _settle(payer, "a", trx_id, outcome)
        await asyncio.gather(
            transfer_webhooks.send_webhook(
                site, "a", transfer_webhooks.transfer("a", trx_id, outcome)
            ),
            payer.verify(trx_id),
            payer.check_now(trx_id),
            payer.verify(trx_id),
            payer.check_now(trx_id),
        )
        await payer.simulator.run_jobs()
        assert (await payer.verify(trx_id)).json["status"] == outcome
        assert len(await payer.notifications(trx_id)) == 1
    assert await payer.balance() == before - rounds // 2 * 100_000
    assert await payer.cases() == []


@pytest.mark.parametrize("rail", transfer_webhooks.RAILS_WITH_WEBHOOKS)
async def test_21_a_reversal_after_delivery_causes_one_refund_and_a_notification(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _ended(payer, rail, "success")
    await _settle(payer, rail, trx_id, "reversed")
    for copy in range(3):
        message = transfer_webhooks.transfer(rail, trx_id, "reversed", copy=copy)
        assert (await transfer_webhooks.send_webhook(site, rail, message)).status == 200
        await payer.simulator.run_jobs()
    await _is(payer, trx_id, "failed", FULL, "Payout Completed", "Payout Reversed")
    assert (await payer.verify(trx_id)).json["status"] == "failed"
    assert await payer.cases() == []


@pytest.mark.parametrize("rail", transfer_webhooks.RAILS_WITH_WEBHOOKS)
@pytest.mark.parametrize("trouble", ["5xx", "rail_down"])
async def test_21_a_reversal_is_kept_while_the_provider_cannot_be_queried(
    payer: PayoutMerchant, site: Site, rail: str, trouble: str
) -> None:
    trx_id = await _ended(payer, rail, "success")
    await _settle(payer, rail, trx_id, "reversed")
    health = payer.services.rails.health.rail(f"provider{rail}", Direction.PAY_OUT)
    if trouble == "5xx":
        await _problems(payer, rail, {"call": "transfer_status", "fault": "5xx_before"})
    else:
        health.is_down = True
    assert (
        await transfer_webhooks.send_webhook(
            site, rail, transfer_webhooks.transfer(rail, trx_id, "reversed")
        )
    ).status == 200
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")
    health.reset()
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "failed", FULL, "Payout Completed", "Payout Reversed")


@pytest.mark.parametrize("rail", RAILS)
async def test_21_a_reversal_without_a_webhook_is_found_by_reconciliation(
    payer: PayoutMerchant, rail: str
) -> None:
    """Provider B sends no webhooks about transfers."""
    trx_id = await _ended(payer, rail, "success")
    await _settle(payer, rail, trx_id, "reversed")
    for _ in range(2):
        await reconcile.reconcile(payer.services.db, payer.services.rails)
        await payer.simulator.run_jobs()
    await _is(payer, trx_id, "failed", FULL, "Payout Completed", "Payout Reversed")
