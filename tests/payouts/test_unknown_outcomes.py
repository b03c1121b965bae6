"""If a provider's response is lost, the payout is neither sent twice nor refunded without proof."""

import asyncio
from functools import partial
from typing import Any

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.jobs import claims
from manilla.lookup.waiting import WaitingReason, waiting_reason
from manilla.providers.port import Direction
from manilla.transfers import sending
from manilla.transfers.sending import PAYOUTS
from tests.payouts.payout_merchant import RAILS, PayoutMerchant, clear_credentials, set_credentials
from tests.support import clock
from tests.support.limits import limited
from tests.support.rows import first_short
from tests.support.waiting import until

BEFORE = ["timeout_before", "5xx_before", "reset"]
AFTER = ["timeout_after_accept", "5xx_after_accept", "reset_after_accept", "garbage_after_accept"]


@pytest.fixture(autouse=True)
async def _without_webhooks(request: pytest.FixtureRequest, payer: PayoutMerchant) -> None:
    """Makes the provider settle on command and send no webhooks. Hanging calls end immediately."""
    if "timeout" in request.node.name:
        request.getfixturevalue("hanging_calls_end")
    for rail in RAILS:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await payer.simulator.control(f"{rail}/faults", quiet)


async def plan(payer: PayoutMerchant, rail: str, *faults: dict[str, Any]) -> None:
    await payer.simulator.control(f"{rail}/faults", {"next": list(faults)})


async def assert_open(payer: PayoutMerchant, trx_id: str) -> None:
    assert (await payer.payout(trx_id)).status == "pending"
    assert (await payer.verify(trx_id)).json["status"] == "pending"
    assert await payer.balance() == 900_000
    assert await payer.notifications(trx_id) == []


async def assert_sent_once(payer: PayoutMerchant, rail: str, trx_id: str) -> None:
    assert [(t["reference"], t["amount"]) for t in await payer.transfers(rail)] == [(trx_id, 1000)]


async def due_in_seconds(payer: PayoutMerchant, trx_id: str) -> float:
    seconds: float = await payer.services.db.value(
        """
        SELECT extract(epoch FROM due_at - now())::float FROM job
         WHERE kind = 'transfer' AND subject = $1""",
        trx_id,
    )
    return seconds


@pytest.mark.parametrize(
    ("rail", "fault"),
    first_short(
        [*(("a", fault) for fault in AFTER), ("b", AFTER[1]), ("c", AFTER[1])],
        of_each=lambda row: row[1],
    ),
)
@pytest.mark.parametrize(("outcome", "status"), [("success", "completed"), ("failed", "failed")])
async def test_a_send_whose_response_is_lost_is_queried(
    payer: PayoutMerchant, rail: str, fault: str, outcome: str, status: str
) -> None:
    await plan(payer, rail, {"call": "transfer", "fault": fault})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await assert_open(payer, trx_id)
    await payer.check_now(trx_id)
    await assert_open(payer, trx_id)
    await payer.settle(rail, trx_id, outcome)
    await payer.check_now(trx_id)
    assert (await payer.payout(trx_id)).status == status
    assert await payer.balance() == (900_000 if outcome == "success" else 1_000_000)
    await assert_sent_once(payer, rail, trx_id)
    assert (await payer.calls(rail)).count("transfer") == 1


@pytest.mark.parametrize(
    ("rail", "fault"),
    first_short(
        [*(("a", fault) for fault in BEFORE), ("b", BEFORE[1]), ("c", BEFORE[1])],
        of_each=lambda row: row[1],
    ),
)
async def test_a_send_that_never_arrived_is_sent_again_under_the_same_reference(
    payer: PayoutMerchant, rail: str, fault: str
) -> None:
    await plan(payer, rail, {"call": "transfer", "fault": fault})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await assert_open(payer, trx_id)
    assert await payer.transfers(rail) == []
    await payer.check_now(trx_id)
    await assert_sent_once(payer, rail, trx_id)
    await payer.settle(rail, trx_id, "success")
    await payer.check_now(trx_id)
    assert (await payer.payout(trx_id)).status == "completed"
    calls = [call for call in await payer.calls(rail) if call.startswith("transfer")]
    assert calls == ["transfer", "transfer_status", "transfer", "transfer_status"]


async def test_a_send_whose_calls_take_too_long_together_is_queried(payer: PayoutMerchant) -> None:
    trx_id = await payer.pay_out()
    with limited(transfer_send_seconds=0):
        await payer.simulator.run_jobs()
    assert not await payer.services.db.value(
        "SELECT accepted_at FROM payout WHERE trx_id = $1", trx_id
    )
    await assert_open(payer, trx_id)
    await payer.check_now(trx_id)
    await assert_open(payer, trx_id)
    await assert_sent_once(payer, "a", trx_id)


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 401, "message": "Unauthorized"},
        {"status": 408, "message": "Request timeout"},
        {"status": 429, "message": "Slow down"},
        {"status": 409, "message": "Duplicate Transaction Reference"},
        {"status": 400, "message": "Transfer reference already exists"},
        {"status": 404, "message": "Transaction not found"},
        {"status": 500, "message": "Insufficient funds in disbursement wallet"},
        {"status": 200, "message": "Insufficient funds in disbursement wallet"},
    ],
    ids=lambda answer: str(answer["status"]),
)
async def test_an_error_that_is_not_the_providers_refusal_is_not_a_refusal(
    payer: PayoutMerchant, answer: dict[str, Any]
) -> None:
    await plan(payer, "a", {"call": "transfer", "fault": "refuse", **answer})
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await assert_open(payer, trx_id)
    await payer.check_now(trx_id)
    await assert_sent_once(payer, "a", trx_id)


async def test_a_refusal_after_an_unknown_send_is_not_final(payer: PayoutMerchant) -> None:
    """The provider may reject the second request because it is still processing the first one."""
    refused = {"call": "transfer", "fault": "refuse", "message": "Request refused"}
    await plan(payer, "a", {"call": "transfer", "fault": "5xx_before"}, {**refused, "times": 2})
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    for _ in range(2):
        await payer.check_now(trx_id)
        await assert_open(payer, trx_id)
    await payer.check_now(trx_id)
    await assert_sent_once(payer, "a", trx_id)


@pytest.mark.parametrize("fault", [*BEFORE, "garbage_after_accept"])
async def test_a_status_query_without_a_response_decides_nothing(
    payer: PayoutMerchant, fault: str
) -> None:
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.settle("a", trx_id, "failed")
    await plan(payer, "a", {"call": "transfer_status", "fault": fault, "times": None})
    for _ in range(2):
        await payer.check_now(trx_id)
        await assert_open(payer, trx_id)
    await plan(payer, "a")
    await payer.check_now(trx_id)
    assert (await payer.payout(trx_id)).status == "failed"
    assert await payer.balance() == 1_000_000


async def test_a_bare_404_does_not_mean_the_transfer_is_unknown(
    payer: PayoutMerchant,
) -> None:
    """The 404 may come from a proxy, so the transfer must not be sent again."""
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    nowhere = {"fault": "refuse", "status": 404, "message": "No such endpoint"}
    await plan(payer, "a", {"call": "transfer_status", **nowhere})
    await payer.check_now(trx_id)
    await assert_open(payer, trx_id)
    assert (await payer.calls()).count("transfer") == 1


async def test_a_webhook_that_arrives_before_we_save_is_matched_by_reference(
    payer: PayoutMerchant,
) -> None:
    """The provider delivers and sends a webhook while the worker still waits for the response."""
    await payer.simulator.control("a/faults", {"settle_seconds": 0, "webhooks": {"mode": "normal"}})
    await plan(payer, "a", {"call": "transfer", "fault": "timeout_after_accept"})
    trx_id = await payer.pay_out()
    sending = asyncio.create_task(payer.simulator.run_jobs())
    has_arrived = "SELECT 1 FROM webhook WHERE reference = $1"
    await until(partial(payer.services.db.has_row, has_arrived, trx_id))
    assert not sending.done()
    clock.end_calls()
    await sending
    await payer.until(trx_id, "completed")
    assert (await payer.payout(trx_id)).status == "completed"
    assert await payer.balance() == 900_000
    assert len(await payer.notifications(trx_id)) == 1
    await assert_sent_once(payer, "a", trx_id)


@pytest.mark.parametrize(
    ("age", "seconds"),
    first_short(
        [
            ("0 s", 5),
            ("50 s", 5),
            ("61 s", 20),
            ("9 min", 20),
            ("11 min", 60),
            ("59 min", 60),
            ("61 min", 300),
            ("23 h", 300),
            ("25 h", 3600),
            ("30 days", 3600),
        ],
        of_each=lambda row: row[1],
    ),
)
async def test_an_open_payout_is_queried_less_and_less_often_but_never_stops(
    payer: PayoutMerchant, db: Database, age: str, seconds: int
) -> None:
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await db.execute(
        f"UPDATE payout SET began_at = now() - interval '{age}' WHERE trx_id = $1", trx_id
    )
    await payer.check_now(trx_id)
    assert seconds / 2 < await due_in_seconds(payer, trx_id) <= seconds
    is_old = age in ("25 h", "30 days")
    assert await payer.cases() == ([("no_answer", trx_id)] if is_old else [])


async def test_a_long_open_payout_opens_one_case_and_can_still_complete(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await db.execute(
        "UPDATE payout SET began_at = now() - interval '2 days' WHERE trx_id = $1", trx_id
    )
    for _ in range(3):
        await payer.check_now(trx_id)
    assert await payer.cases() == [("no_answer", trx_id)]
    await assert_open(payer, trx_id)
    await payer.settle("a", trx_id, "success")
    await payer.check_now(trx_id)
    assert (await payer.payout(trx_id)).status == "completed"


async def test_a_transfer_the_provider_never_received_is_resent_even_after_a_long_time(
    payer: PayoutMerchant, db: Database
) -> None:
    lost = {"call": "transfer", "fault": "5xx_before"}
    await plan(payer, "a", lost)
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await db.execute(
        "UPDATE payout SET began_at = now() - interval '2 days' WHERE trx_id = $1", trx_id
    )
    await payer.check_now(trx_id)
    await assert_sent_once(payer, "a", trx_id)


async def test_a_rail_that_is_down_is_not_called_and_the_payout_waits(
    payer: PayoutMerchant,
) -> None:
    trx_id = await payer.pay_out()
    rail = payer.services.rails.health.rail("providera", Direction.PAY_OUT)
    before = await payer.calls()
    rail.is_down = True
    try:
        await payer.simulator.run_jobs()
        assert await payer.calls() == before
        await assert_open(payer, trx_id)
        assert 1 < await due_in_seconds(payer, trx_id) <= 5
        reason = await _waiting(payer, trx_id)
        assert reason is not None
        assert reason.for_merchants == (
            "The provider is not available. The payout has not been sent yet. "
            "It will be sent automatically."
        )
    finally:
        rail.reset()
    assert await _waiting(payer, trx_id) is None
    await payer.check_now(trx_id)
    await assert_sent_once(payer, "a", trx_id)


async def _waiting(payer: PayoutMerchant, trx_id: str) -> WaitingReason | None:
    services = payer.services
    return await waiting_reason(services.db, services.rails, await payer.payout(trx_id))


async def test_a_payout_waits_while_its_rail_has_no_credentials(payer: PayoutMerchant) -> None:
    trx_id = await payer.pay_out()
    given = dict(payer.services.rails.credentials("providera").given)
    await clear_credentials(payer.services, "a")
    await payer.simulator.run_jobs()
    await assert_open(payer, trx_id)
    assert await _waiting(payer, trx_id) is not None
    await set_credentials(payer.services, "a", **given)
    await payer.check_now(trx_id)
    await assert_sent_once(payer, "a", trx_id)


async def test_a_worker_that_has_lost_its_job_may_not_send(
    payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await payer.pay_out()
    [stalled] = await claims.claim(db, {"transfer": 1})
    await db.execute("UPDATE job SET leased_until = now() WHERE subject = $1", trx_id)
    [holder] = await claims.claim(db, {"transfer": 1})
    assert await sending.mark(db, PAYOUTS, [await payer.mark_of(stalled)]) == [False]
    assert await sending.mark(db, PAYOUTS, [await payer.mark_of(holder)]) == [True]
    sent_at = (await payer.payout(trx_id)).sent_at
    again = [await payer.mark_of(job, sent_at) for job in (stalled, holder)]
    assert await sending.mark(db, PAYOUTS, again) == [False, True]
