"""Where a provider's answer is lost: nothing is refunded on a guess, nothing is sent twice."""

import asyncio
from typing import Any

import pytest

from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.providers import wire
from manilla.providers.port import Direction, Done, Provider, TransferOrder
from tests.payouts.desk import RAILS, Desk, clear_credentials, set_credentials

BEFORE = ["timeout_before", "5xx_before", "reset"]
AFTER = ["timeout_after_accept", "5xx_after_accept", "reset_after_accept", "garbage_after_accept"]


@pytest.fixture(autouse=True)
async def _impatient_and_silent(
    request: pytest.FixtureRequest, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We wait for a provider for a moment only; it decides when it is told to, and tells nobody."""
    if "timeout" in request.node.name:
        monkeypatch.setattr(wire, "CALL_SECONDS", 0.5)
    for rail in RAILS:
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await desk.world.control(f"{rail}/faults", quiet)


async def plan(desk: Desk, rail: str, *faults: dict[str, Any]) -> None:
    await desk.world.control(f"{rail}/faults", {"next": list(faults)})


async def assert_open(desk: Desk, trx_id: str) -> None:
    assert (await desk.payout(trx_id)).status == "pending"
    assert (await desk.verify(trx_id)).json["status"] == "pending"
    assert await desk.balance() == 900_000
    assert await desk.notifications(trx_id) == []


async def assert_sent_once(desk: Desk, rail: str, trx_id: str) -> None:
    assert [(t["reference"], t["amount"]) for t in await desk.transfers(rail)] == [(trx_id, 1000)]


async def due_in_seconds(desk: Desk, trx_id: str) -> float:
    seconds: float = await desk.services.db.value(
        """
        SELECT extract(epoch FROM due_at - now())::float FROM job
         WHERE kind = 'transfer' AND subject = $1""",
        trx_id,
    )
    return seconds


@pytest.mark.parametrize(
    ("rail", "fault"), [("a", fault) for fault in AFTER] + [("b", AFTER[1]), ("c", AFTER[1])]
)
@pytest.mark.parametrize(("outcome", "status"), [("success", "completed"), ("failed", "failed")])
async def test_a_send_whose_answer_is_lost_is_asked_about(
    desk: Desk, rail: str, fault: str, outcome: str, status: str
) -> None:
    await plan(desk, rail, {"call": "transfer", "fault": fault})
    trx_id = await desk.pay_out(rail)
    await desk.world.run_jobs()
    await assert_open(desk, trx_id)
    await desk.check_now(trx_id)
    await assert_open(desk, trx_id)
    await desk.settle(rail, trx_id, outcome)
    await desk.check_now(trx_id)
    assert (await desk.payout(trx_id)).status == status
    assert await desk.balance() == (900_000 if outcome == "success" else 1_000_000)
    await assert_sent_once(desk, rail, trx_id)
    assert (await desk.calls(rail)).count("transfer") == 1


@pytest.mark.parametrize(
    ("rail", "fault"), [("a", fault) for fault in BEFORE] + [("b", BEFORE[1]), ("c", BEFORE[1])]
)
async def test_a_send_that_never_arrived_is_sent_again_under_the_same_reference(
    desk: Desk, rail: str, fault: str
) -> None:
    await plan(desk, rail, {"call": "transfer", "fault": fault})
    trx_id = await desk.pay_out(rail)
    await desk.world.run_jobs()
    await assert_open(desk, trx_id)
    assert await desk.transfers(rail) == []
    await desk.check_now(trx_id)
    await assert_sent_once(desk, rail, trx_id)
    await desk.settle(rail, trx_id, "success")
    await desk.check_now(trx_id)
    assert (await desk.payout(trx_id)).status == "completed"
    calls = [call for call in await desk.calls(rail) if call.startswith("transfer")]
    assert calls == ["transfer", "transfer_status", "transfer", "transfer_status"]


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
async def test_what_is_not_the_providers_own_refusal_is_none(
    desk: Desk, answer: dict[str, Any]
) -> None:
    await plan(desk, "a", {"call": "transfer", "fault": "refuse", **answer})
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await assert_open(desk, trx_id)
    await desk.check_now(trx_id)
    await assert_sent_once(desk, "a", trx_id)


async def test_a_refusal_after_an_unknown_send_is_no_refusal(desk: Desk) -> None:
    """It may be about the repetition, while the first is on its way."""
    refused = {"call": "transfer", "fault": "refuse", "message": "Request refused"}
    await plan(desk, "a", {"call": "transfer", "fault": "5xx_before"}, {**refused, "times": 2})
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    for _ in range(2):
        await desk.check_now(trx_id)
        await assert_open(desk, trx_id)
    await desk.check_now(trx_id)
    await assert_sent_once(desk, "a", trx_id)


@pytest.mark.parametrize("fault", [*BEFORE, "garbage_after_accept"])
async def test_a_question_without_an_answer_decides_nothing(desk: Desk, fault: str) -> None:
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await desk.settle("a", trx_id, "failed")
    await plan(desk, "a", {"call": "transfer_status", "fault": fault, "times": None})
    for _ in range(2):
        await desk.check_now(trx_id)
        await assert_open(desk, trx_id)
    await plan(desk, "a")
    await desk.check_now(trx_id)
    assert (await desk.payout(trx_id)).status == "failed"
    assert await desk.balance() == 1_000_000


async def test_a_bare_404_is_not_the_providers_word_that_it_knows_no_such_transfer(
    desk: Desk,
) -> None:
    """A proxy may have said so: sending again would be a guess."""
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    nowhere = {"fault": "refuse", "status": 404, "message": "No such endpoint"}
    await plan(desk, "a", {"call": "transfer_status", **nowhere})
    await desk.check_now(trx_id)
    await assert_open(desk, trx_id)
    assert (await desk.calls()).count("transfer") == 1


@pytest.mark.parametrize("rail", ["a", "c"])
@pytest.mark.parametrize("amount", [99_999, 100_001])
@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_another_amount_than_was_sent_is_a_case_and_moves_nothing(
    desk: Desk, rail: str, amount: int, outcome: str
) -> None:
    trx_id = await desk.pay_out(rail)
    await _send_by_other_means(desk, rail, trx_id, Money("NGN", amount))
    await desk.settle(rail, trx_id, outcome)
    await desk.world.run_jobs()
    await desk.check_now(trx_id)
    await assert_open(desk, trx_id)
    assert await desk.cases() == [("wrong_amount", trx_id)]


async def _send_by_other_means(desk: Desk, rail: str, trx_id: str, amount: Money) -> None:
    adapter = desk.services.rails.adapter(Provider(f"provider{rail}"))
    payout = await desk.payout(trx_id)
    assert adapter is not None
    answer = await adapter.send(
        TransferOrder(
            reference=trx_id,
            amount=amount,
            bank_code=payout.beneficiary["bank_code"],
            account_number=payout.beneficiary["account_number"],
            account_name="",
            narration="",
            customer_email="ada@example.com",
            notification_url="https://shop.example/",
        )
    )
    assert isinstance(answer, Done)


async def test_a_webhook_that_comes_before_our_own_save_is_found_by_its_reference(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider has delivered and said so, while we still wait for its answer."""
    monkeypatch.setattr(wire, "CALL_SECONDS", 1.0)
    await desk.world.control("a/faults", {"settle_seconds": 0, "webhooks": {"mode": "normal"}})
    await plan(desk, "a", {"call": "transfer", "fault": "timeout_after_accept"})
    trx_id = await desk.pay_out()
    sending = asyncio.create_task(desk.world.run_jobs())
    while not await desk.transfers():
        await asyncio.sleep(0.01)
    await desk.until(trx_id, "completed")
    await sending
    await desk.world.run_jobs()
    assert (await desk.payout(trx_id)).status == "completed"
    assert await desk.balance() == 900_000
    assert len(await desk.notifications(trx_id)) == 1
    await assert_sent_once(desk, "a", trx_id)


@pytest.mark.parametrize(
    ("age", "seconds"),
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
)
async def test_an_open_payout_is_asked_about_ever_more_seldom_and_never_not_at_all(
    desk: Desk, db: Database, age: str, seconds: int
) -> None:
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await db.execute(
        f"UPDATE payout SET began_at = now() - interval '{age}' WHERE trx_id = $1", trx_id
    )
    await desk.check_now(trx_id)
    assert seconds / 2 < await due_in_seconds(desk, trx_id) <= seconds
    is_old = age in ("25 h", "30 days")
    assert await desk.cases() == ([("no_answer", trx_id)] if is_old else [])


async def test_what_is_open_for_long_becomes_one_case_and_still_ends_by_itself(
    desk: Desk, db: Database
) -> None:
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await db.execute(
        "UPDATE payout SET began_at = now() - interval '2 days' WHERE trx_id = $1", trx_id
    )
    for _ in range(3):
        await desk.check_now(trx_id)
    assert await desk.cases() == [("no_answer", trx_id)]
    await assert_open(desk, trx_id)
    await desk.settle("a", trx_id, "success")
    await desk.check_now(trx_id)
    assert (await desk.payout(trx_id)).status == "completed"


async def test_what_a_provider_never_knew_is_sent_again_also_after_long(
    desk: Desk, db: Database
) -> None:
    lost = {"call": "transfer", "fault": "5xx_before"}
    await plan(desk, "a", lost)
    trx_id = await desk.pay_out()
    await desk.world.run_jobs()
    await db.execute(
        "UPDATE payout SET began_at = now() - interval '2 days' WHERE trx_id = $1", trx_id
    )
    await desk.check_now(trx_id)
    await assert_sent_once(desk, "a", trx_id)


async def test_a_rail_that_is_down_is_not_called_and_the_payout_waits(desk: Desk) -> None:
    trx_id = await desk.pay_out()
    rail = desk.services.rails.health.rail(Provider.A, Direction.PAY_OUT)
    before = await desk.calls()
    rail.is_down = True
    try:
        await desk.world.run_jobs()
        assert await desk.calls() == before
        await assert_open(desk, trx_id)
        assert 1 < await due_in_seconds(desk, trx_id) <= 5
    finally:
        rail.reset()
    await desk.check_now(trx_id)
    await assert_sent_once(desk, "a", trx_id)


async def test_a_rail_that_has_lost_its_credentials_is_waited_for(desk: Desk) -> None:
    trx_id = await desk.pay_out()
    given = dict(desk.services.rails.credentials(Provider.A).given)
    await clear_credentials(desk.services, "a")
    await desk.world.run_jobs()
    await assert_open(desk, trx_id)
    await set_credentials(desk.services, "a", **given)
    await desk.check_now(trx_id)
    await assert_sent_once(desk, "a", trx_id)
