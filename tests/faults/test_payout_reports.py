"""Providers respond late, wrongly or twice, or contradict an earlier report.

The numbers in the test names refer to docs/faults.md. Each test runs for all provider kinds.
`tests/support/kinds.py` lists their differences.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.database.connections import Database
from manilla.providers.port import Direction
from manilla.reconciliation import balances
from tests.faults import transfer_webhooks
from tests.faults.stalled_worker import StalledWorker, Step
from tests.payouts.payout_merchant import PayoutMerchant, set_credentials
from tests.support import kinds
from tests.support.client import Site
from tests.support.kinds import Reversal
from tests.support.rows import first_short

RAILS = kinds.ALL
TELLING = kinds.WITH_TRANSFER_WEBHOOKS
FULL, DEBITED = 1_000_000, 900_000


@pytest.fixture(autouse=True)
async def _settle_on_command_without_webhooks(payer: PayoutMerchant, db: Database) -> None:
    """Makes the provider settle transfers only on command, without webhooks.

    Also postpones the jobs of other tests.
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


async def _sent(payer: PayoutMerchant, rail: str = "a") -> str:
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    assert len(await payer.transfers(rail)) == 1
    return trx_id


async def _ended(payer: PayoutMerchant, rail: str, status: str) -> str:
    """Creates a payout whose final status has been returned by a status query."""
    trx_id = await _sent(payer, rail)
    await payer.settle(rail, trx_id, status)
    await payer.check_now(trx_id)
    expected = "completed" if status == "success" else "failed"
    assert (await payer.payout(trx_id)).status == expected
    return trx_id


async def _is(
    payer: PayoutMerchant, trx_id: str, status: str, balance: int, *notified: str
) -> None:
    """Checks the payout's status, the wallet's balance, and the messages of the notifications."""
    assert (await payer.payout(trx_id)).status == status
    assert await payer.balance() == balance
    assert [each["message"] for each in await payer.notifications(trx_id)] == list(notified)


async def _is_paid_once(payer: PayoutMerchant, rail: str, trx_id: str) -> None:
    found = [(t["reference"], t["amount"], t["duplicates"]) for t in await payer.transfers(rail)]
    assert found == [(kinds.BY_RAIL[rail].reference(trx_id), 1000, 0)]


async def _ages(payer: PayoutMerchant, trx_id: str) -> None:
    """Makes the transfer look as if it was sent a day ago."""
    age = "UPDATE payout SET began_at = began_at - interval '25 hours' WHERE trx_id = $1"
    await payer.services.db.execute(age, trx_id)


async def _stays_unsent(payer: PayoutMerchant, rail: str, trx_id: str) -> None:
    """Checks that a transfer that must not be sent again opens a case, and that no money moves."""
    await _ages(payer, trx_id)
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "pending", DEBITED)
    assert await payer.cases() == [("no_answer", trx_id)]
    assert (await payer.calls(rail)).count("transfer") == 1


async def _tell(site: Site, rail: str, trx_id: str, status: str) -> None:
    """Sends the provider's webhook about the transfer, if the provider sends such webhooks."""
    if kinds.BY_RAIL[rail].has_transfer_webhooks:
        message = transfer_webhooks.transfer(rail, trx_id, status)
        assert (await transfer_webhooks.send_webhook(site, rail, message)).status == 200


async def _tell_or_reconcile(
    payer: PayoutMerchant, site: Site, rail: str, trx_id: str, status: str
) -> None:
    """Reports the change with a webhook, or by reconciliation if the provider sends no webhooks."""
    await _tell(site, rail, trx_id, status)
    if not kinds.BY_RAIL[rail].has_transfer_webhooks:
        await balances.compare_all(payer.services.db, payer.services.rails)
    await payer.simulator.run_jobs()


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize("outcome", ["success", "failed"])
@pytest.mark.parametrize(
    "fault",
    first_short(
        [
            {"fault": "timeout_after_accept"},
            {"fault": "5xx_after_accept"},
            {"fault": "5xx_after_accept", "status": 500, "message": "Insufficient funds"},
            {"fault": "reset_after_accept"},
            {"fault": "garbage_after_accept"},
        ]
    ),
)
@pytest.mark.usefixtures("hanging_calls_end")
async def test_10_11_a_lost_response_to_an_accepted_send_is_not_a_refusal(
    payer: PayoutMerchant,
    rail: str,
    fault: dict[str, Any],
    outcome: str,
) -> None:
    await _problems(payer, rail, {"call": "transfer", **fault})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "pending", DEBITED)
    assert (await payer.verify(trx_id)).json["status"] == "pending"
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "pending", DEBITED)

    await payer.settle(rail, trx_id, outcome)
    await payer.check_now(trx_id)
    if outcome == "success":
        await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")
    else:
        await _is(payer, trx_id, "failed", FULL, "Payout Failed")
    await _is_paid_once(payer, rail, trx_id)
    assert await payer.cases() == []


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize(
    "fault",
    first_short(
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
        of_each=lambda fault: fault["fault"],
    ),
)
@pytest.mark.usefixtures("hanging_calls_end")
async def test_10_a_send_that_never_arrived_is_sent_again_under_its_reference(
    payer: PayoutMerchant, rail: str, fault: dict[str, Any]
) -> None:
    await _problems(payer, rail, {"call": "transfer", **fault})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "pending", DEBITED)
    assert await payer.transfers(rail) == []
    await payer.check_now(trx_id)
    if not kinds.BY_RAIL[rail].resends_transfers:
        await _stays_unsent(payer, rail, trx_id)
        return
    await _is_paid_once(payer, rail, trx_id)
    await payer.settle(rail, trx_id, "success")
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")


@pytest.mark.parametrize(
    "rail", first_short(RAILS, of_each=lambda rail: kinds.BY_RAIL[rail].resends_transfers)
)
async def test_10_a_send_that_certainly_never_left_is_sent_when_the_provider_is_back(
    payer: PayoutMerchant, rail: str
) -> None:
    """The connection failed before anything was sent, so the worker may send the transfer again."""
    provider = kinds.BY_RAIL[rail].provider
    trx_id = await payer.pay_out(rail)
    url = payer.services.rails.credentials(provider).value("base_url")
    await set_credentials(payer.services, rail, base_url="http://127.0.0.1:1")
    try:
        await payer.simulator.run_jobs()
    finally:
        await set_credentials(payer.services, rail, base_url=url)
    unsent = await payer.payout(trx_id)
    assert (unsent.status, unsent.began_at, unsent.sent_reference) == ("pending", None, None)
    await payer.check_now(trx_id)
    await _is_paid_once(payer, rail, trx_id)
    await payer.settle(rail, trx_id, "success")
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_10_a_refusal_after_an_unknown_send_ends_in_a_case_and_never_a_refund(
    payer: PayoutMerchant, rail: str
) -> None:
    """The provider may reject the second request because it is still processing the first one."""
    refusal = {"call": "transfer", "fault": "refuse", "status": 422, "message": "Refused"}
    lost = {"call": "transfer", "fault": "5xx_before"}
    await _problems(payer, rail, lost, {**refusal, "times": None})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    for _ in range(3):
        await payer.check_now(trx_id)
    await _is(payer, trx_id, "pending", DEBITED)
    assert await payer.cases() == []
    if not kinds.BY_RAIL[rail].resends_transfers:
        await _stays_unsent(payer, rail, trx_id)
        return
    await _ages(payer, trx_id)
    await payer.check_now(trx_id)
    await _is(payer, trx_id, "pending", DEBITED)
    assert await payer.cases() == [("no_answer", trx_id)]
    await _problems(payer, rail)
    await payer.check_now(trx_id)
    await _is_paid_once(payer, rail, trx_id)


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_12_a_provider_that_changes_delivered_to_failed_causes_a_case_and_no_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _ended(payer, rail, "success")
    await payer.settle(rail, trx_id, "failed", insist=True)
    await _tell_or_reconcile(payer, site, rail, trx_id, "failed")
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")
    assert await payer.cases() == [("contradiction", trx_id)]


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_12_a_failed_webhook_against_the_status_query_causes_a_case_and_no_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    """A webhook reports a failure, but the status query still reports the transfer as delivered."""
    trx_id = await _ended(payer, rail, "success")
    await _tell(site, rail, trx_id, "failed")
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "completed", DEBITED, "Payout Completed")
    assert [reference for _, reference in await payer.cases()] == [trx_id]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_13_a_provider_that_changes_failed_to_delivered_causes_a_case_and_no_debit(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _ended(payer, rail, "failed")
    await payer.settle(rail, trx_id, "success", insist=True)
    await _tell_or_reconcile(payer, site, rail, trx_id, "success")
    await _is(payer, trx_id, "failed", FULL, "Payout Failed")
    assert await payer.cases() == [("contradiction", trx_id)]


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_13_a_success_webhook_against_the_status_query_causes_a_case_and_no_debit(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _ended(payer, rail, "failed")
    await _tell(site, rail, trx_id, "success")
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, "failed", FULL, "Payout Failed")
    assert [reference for _, reference in await payer.cases()] == [trx_id]


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_14_a_hundred_concurrent_copies_of_a_failed_webhook_cause_one_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await _sent(payer, rail)
    await payer.settle(rail, trx_id, "failed")
    messages = [transfer_webhooks.transfer(rail, trx_id, "failed", n=n % 10) for n in range(100)]
    workers = [asyncio.create_task(_work_for_a_while(payer)) for _ in range(3)]
    replies = await asyncio.gather(
        *(transfer_webhooks.send_webhook(site, rail, message) for message in messages)
    )
    # A busy server may respond with 503, and a real provider would then send the webhook again.
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


@pytest.mark.parametrize("rail", first_short(RAILS))
@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_19_a_webhook_that_arrives_before_we_save_the_send_is_matched_by_reference(
    payer: PayoutMerchant, site: Site, rail: str, outcome: str
) -> None:
    trx_id = await payer.pay_out(rail)
    slow = StalledWorker(payer.services, Step.BEFORE_SAVE)
    await slow.stall()
    await payer.settle(rail, trx_id, outcome)
    await _tell(site, rail, trx_id, outcome)
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


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_20_webhook_status_query_and_reconciliation_together_cause_one_transition(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    rounds = 4
    before = await payer.balance()
    for number in range(rounds):
        outcome = ("success", "failed")[number % 2]
        trx_id = await payer.pay_out(rail)
        await payer.simulator.run_jobs()
        await payer.settle(rail, trx_id, outcome)
        await asyncio.gather(
            _tell(site, rail, trx_id, outcome),
            payer.verify(trx_id),
            payer.check_now(trx_id),
            balances.compare_all(payer.services.db, payer.services.rails),
            payer.check_now(trx_id),
        )
        await payer.simulator.run_jobs()
        assert (await payer.verify(trx_id)).json["status"] == outcome
        assert len(await payer.notifications(trx_id)) == 1
    assert await payer.balance() == before - rounds // 2 * 100_000
    assert await payer.cases() == []


REFUNDED = ("failed", FULL, "Payout Completed", "Payout Reversed")
NOT_REFUNDED = ("completed", DEBITED, "Payout Completed")


async def _has_come_back(payer: PayoutMerchant, trx_id: str, reversal: Reversal) -> None:
    """Checks that there is one refund, or one case if the provider does not report reversals."""
    if reversal is Reversal.NAMED:
        await _is(payer, trx_id, *REFUNDED)
        assert (await payer.verify(trx_id)).json["status"] == "failed"
        assert await payer.cases() == []
        events = await payer.merchant.get("/api/v1/events?type=payout.reversed")
        assert [event["trx_id"] for event in events.json["data"]] == [trx_id]
    else:
        await _is(payer, trx_id, *NOT_REFUNDED)
        assert await payer.cases() == [("contradiction", trx_id)]


@pytest.mark.parametrize(
    ("rail", "word", "reversal"),
    first_short(
        [each for each in kinds.REVERSALS if each[0] in TELLING], of_each=lambda row: row[2]
    ),
)
async def test_21_a_reversal_after_delivery_causes_one_refund_and_a_notification(
    payer: PayoutMerchant, site: Site, rail: str, word: str, reversal: Reversal
) -> None:
    trx_id = await _ended(payer, rail, "success")
    await payer.settle(rail, trx_id, "reversed", provider_status=word)
    said = "reversed" if reversal is Reversal.NAMED else "failed"
    for copy in range(3):
        message = transfer_webhooks.transfer(rail, trx_id, said, copy=copy)
        assert (await transfer_webhooks.send_webhook(site, rail, message)).status == 200
        await payer.simulator.run_jobs()
    await _has_come_back(payer, trx_id, reversal)


@pytest.mark.parametrize("rail", first_short(TELLING))
@pytest.mark.parametrize("trouble", ["5xx", "rail_down"])
async def test_21_a_reversal_is_kept_while_the_provider_cannot_be_queried(
    payer: PayoutMerchant, site: Site, rail: str, trouble: str
) -> None:
    kind = kinds.BY_RAIL[rail]
    trx_id = await _ended(payer, rail, "success")
    word, _ = kind.reversals[-1]
    await payer.settle(rail, trx_id, "reversed", provider_status=word)
    health = payer.services.rails.health.rail(kind.provider, Direction.PAY_OUT)
    if trouble == "5xx":
        await _problems(payer, rail, {"call": "transfer_status", "fault": "5xx_before"})
    else:
        health.is_down = True
    await _tell(site, rail, trx_id, "reversed")
    await payer.simulator.run_jobs()
    await _is(payer, trx_id, *NOT_REFUNDED)
    health.reset()
    await payer.check_now(trx_id)
    await _is(payer, trx_id, *REFUNDED)


@pytest.mark.parametrize(
    ("rail", "word", "reversal"), first_short(kinds.REVERSALS, of_each=lambda row: row[2])
)
async def test_21_a_reversal_without_a_webhook_is_found_by_reconciliation(
    payer: PayoutMerchant, rail: str, word: str, reversal: Reversal
) -> None:
    """Provider B sends no webhooks about transfers, so only reconciliation finds the reversal."""
    trx_id = await _ended(payer, rail, "success")
    await payer.settle(rail, trx_id, "reversed", provider_status=word)
    for _ in range(2):
        await balances.compare_all(payer.services.db, payer.services.rails)
        await payer.simulator.run_jobs()
    await _has_come_back(payer, trx_id, reversal)
