"""Processes die or stall during a payout. No payout is lost or paid twice.

The numbers in the test names refer to docs/faults.md.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from tests.faults.payout_instance import FAILS_LATER, PayoutInstance, stop_worker
from tests.payouts.payout_merchant import MANUAL
from tests.support import kinds
from tests.support.rows import first_short

pytestmark = pytest.mark.long

PAYABLE = 100_000  # Every payout in this module is for this amount, to which no fee is added.


@pytest.fixture(scope="module")
async def live(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[PayoutInstance]:
    live = await PayoutInstance(tmp_path_factory.mktemp("faults")).open()
    await live.configure_all_kinds()
    for rail in kinds.ALL:
        await live.control(f"{rail}/faults", {"settle_seconds": 0.05})
    yield live
    await live.close()


@pytest.fixture(autouse=True)
async def _invariants_hold_here(live: PayoutInstance) -> AsyncIterator[None]:
    yield
    await live.check_invariants()


async def _warm_up(live: PayoutInstance, rail: str) -> None:
    """Fills the caches, so that the next request only runs the SQL that debits the wallet."""
    if rail != MANUAL:
        await live.until_status(await live.pay_out(rail), "completed")
        await live.pay_out(rail)


async def _finish(live: PayoutInstance, trx_id: str, rail: str) -> None:
    if rail == MANUAL:
        live.instance.command("payout", "complete", trx_id)
    else:
        await live.until_status(trx_id, "completed")
        assert await live.is_paid_once(trx_id, rail)
        assert (await live.calls(trx_id, rail)).count("transfer") == 1
    [(_, status, _)] = await live.notifications(trx_id)
    assert status == "completed"


@pytest.mark.long
@pytest.mark.parametrize("rail", first_short(["a", MANUAL]))
async def test_1_a_crash_before_the_debit_commits_leaves_nothing_and_a_retry_works(
    live: PayoutInstance, rail: str
) -> None:
    await _warm_up(live, rail)
    order, before = await live.order(rail), await live.balance()
    live.arm("before_intake_commit")
    assert await live.ask(order) is None
    assert live.has_crashed("before_intake_commit")
    assert await live.payouts_of(order["ref_trx"]) == []
    assert await live.balance() == before

    reply = await live.ask_until_answered(order)
    assert reply.status == 200, reply.body
    assert await live.payouts_of(order["ref_trx"]) == [reply.json["trx_id"]]
    assert await live.balance() == before - PAYABLE
    await _finish(live, reply.json["trx_id"], rail)


@pytest.mark.parametrize("rail", first_short(["a", MANUAL]))
async def test_2_a_crash_between_commit_and_response_lets_the_retry_find_the_first_trx_id(
    live: PayoutInstance, rail: str
) -> None:
    await _warm_up(live, rail)
    order, before = await live.order(rail), await live.balance()
    live.arm("after_intake_commit")
    assert await live.ask(order) is None
    assert live.has_crashed("after_intake_commit")
    [trx_id] = await live.payouts_of(order["ref_trx"])

    reply = await live.ask_until_answered(order)
    assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
    assert reply.json["trx_id"] == trx_id
    assert await live.payouts_of(order["ref_trx"]) == [trx_id]
    assert await live.balance() == before - PAYABLE
    await _finish(live, trx_id, rail)


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
@pytest.mark.parametrize("point", ["before_transfer_is_sent", "after_send_is_begun"])
async def test_3_a_crash_before_the_send_leads_to_one_send_under_the_same_reference(
    live: PayoutInstance, point: str, rail: str
) -> None:
    live.arm(point)
    trx_id = await live.pay_out(rail)
    await live.until_crash(point)
    assert await live.transfers(trx_id, rail) == []
    assert (await live.payout(trx_id))["status"] == "pending"
    await live.end_leases()
    if point == "after_send_is_begun" and not kinds.BY_RAIL[rail].resends_transfers:
        await _stays_unsent(live, trx_id, rail)
        return
    await _finish(live, trx_id, rail)
    assert await live.steps(trx_id) == ["completed"]


async def _stays_unsent(live: PayoutInstance, trx_id: str, rail: str) -> None:
    """Checks that a possibly sent transfer is not sent again, because it might be paid twice."""

    async def has_case() -> bool:
        return await live.cases(trx_id) == ["no_answer"]

    await live.let_a_day_pass(trx_id)
    await live.until(has_case)
    calls = await live.calls(trx_id, rail)
    assert "transfer_status" in calls
    assert "transfer" not in calls
    assert (await live.payout(trx_id))["status"] == "pending"


@pytest.mark.parametrize("rail", first_short(kinds.ALL))
async def test_4_a_crash_after_the_transfer_is_sent_leaves_one_transfer_at_the_provider(
    live: PayoutInstance, rail: str
) -> None:
    live.arm("after_transfer_is_sent")
    trx_id = await live.pay_out(rail)
    await live.until_crash("after_transfer_is_sent")
    await live.end_leases()
    await _finish(live, trx_id, rail)
    assert await live.steps(trx_id) == ["completed"]


async def test_4_a_refusal_lost_in_a_crash_is_not_assumed_later(
    live: PayoutInstance,
) -> None:
    """After the crash, the status query does not find the transfer, so the worker sends it again.

    The second request has the same reference, and the provider accepts it.
    """
    before = await live.balance()
    refusal = {"call": "transfer", "fault": "refuse", "message": "Request refused", "status": 422}
    await live.control("a/faults", {"next": [refusal]})
    live.arm("after_transfer_is_sent")
    trx_id = await live.pay_out()
    await live.until_crash("after_transfer_is_sent")
    assert (await live.payout(trx_id))["status"] == "pending"
    await live.end_leases()
    await live.until_status(trx_id, "completed")
    assert await live.is_paid_once(trx_id)
    assert (await live.calls(trx_id)).count("transfer") == 2
    assert await live.balance() == before - PAYABLE


@pytest.mark.parametrize(
    "point", ["between_status_and_refund", "before_payout_commit", "after_payout_commit"]
)
async def test_5_a_crash_between_status_and_refund_leaves_both_or_neither(
    live: PayoutInstance, point: str
) -> None:
    before = await live.balance()
    live.arm(point)
    trx_id = await live.pay_out(account=FAILS_LATER)
    await live.until_crash(point)
    is_failed = (await live.payout(trx_id))["status"] == "failed"
    assert is_failed is (point == "after_payout_commit")
    assert await live.balance() == before - (0 if is_failed else PAYABLE)
    assert len(await live.notifications(trx_id)) == (1 if is_failed else 0)
    await live.check_invariants()

    await live.end_leases()
    await live.until_status(trx_id, "failed")
    assert await live.balance() == before
    assert await live.steps(trx_id) == ["failed"]
    [(_, *notified)] = await live.notifications(trx_id)
    assert notified == ["failed", "Payout Failed"]
    assert await live.is_paid_once(trx_id)


@pytest.mark.long
@pytest.mark.parametrize(
    ("account", "status"), [("0000000000", "completed"), (FAILS_LATER, "failed")]
)
async def test_6_a_crash_after_a_final_status_keeps_its_notification_unchanged(
    live: PayoutInstance, account: str, status: str
) -> None:
    """The crash must not change the notification. Other tests cover its delivery."""
    live.arm("after_payout_commit")
    trx_id = await live.pay_out(account=account)
    await live.until_crash("after_payout_commit")
    [(notification_id, notified, _)] = await live.notifications(trx_id)
    assert notified == status
    await live.end_leases()
    # Wait until the new worker is running.
    await live.until_status(await live.pay_out(), "completed")
    assert [id_ for id_, *_ in await live.notifications(trx_id)] == [notification_id]


@pytest.mark.long
async def test_26_killing_postgresql_under_load_loses_no_payout_and_pays_none_twice(
    live: PayoutInstance,
) -> None:
    before = await live.balance()
    orders = [await live.order() for _ in range(40)]
    replies: dict[str, str] = {}

    async def pay_out(number: int) -> None:
        await asyncio.sleep(number * 0.05)
        reply = await live.ask_until_answered(orders[number])
        assert reply.status == 200 or reply.code == "DUPLICATE_REFERENCE", reply.body
        replies[orders[number]["ref_trx"]] = reply.json["trx_id"]

    load = [asyncio.create_task(pay_out(number)) for number in range(len(orders))]
    for _ in range(2):
        await asyncio.sleep(0.6)
        os.kill(live.instance.postmaster(), signal.SIGKILL)
    await asyncio.gather(*load)
    await live.end_leases()
    for ref_trx, trx_id in replies.items():
        await live.until_status(trx_id, "completed")
        assert await live.payouts_of(ref_trx) == [trx_id]
        assert await live.is_paid_once(trx_id)
    assert await live.balance() == before - len(orders) * PAYABLE


@pytest.mark.long
@pytest.mark.parametrize("has_arrived", [True, False])
async def test_30_a_worker_stalled_past_its_lease_changes_nothing_when_it_resumes(
    live: PayoutInstance, has_arrived: bool
) -> None:
    """Another worker sends the transfer while the first worker is stalled.

    Even if the stalled worker's request arrives later, the provider accepts only one of the two
    requests.
    """
    # This payout caches the account name, so that the next payout does not resolve it.
    await live.pay_out()
    accepted = [{"call": "transfer", "fault": "timeout_after_accept"}]
    await live.control("a/faults", {"next": accepted} if has_arrived else {"latency_seconds": 6})
    trx_id = await live.pay_out()

    async def is_being_sent() -> bool:
        if has_arrived:
            return await live.transfers(trx_id) != []
        return (await live.payout(trx_id))["began_at"] is not None

    await live.until(is_being_sent)
    stalled = live.worker()
    os.kill(stalled, signal.SIGSTOP)
    await live.control("a/faults", {"latency_seconds": 0})
    other = live.start_worker()
    try:
        await live.end_leases()
        await live.until_status(trx_id, "completed")
        finished = await live.payout(trx_id)
    finally:
        os.kill(stalled, signal.SIGCONT)
        stop_worker(other)
    # The resumed worker completes a new payout.
    await live.until_status(await live.pay_out(), "completed")
    assert live.worker() == stalled
    assert await live.payout(trx_id) == finished
    assert [t["reference"] for t in await live.transfers(trx_id)] == [trx_id]
    assert (await live.calls(trx_id)).count("transfer") <= (1 if has_arrived else 2)
    assert await live.steps(trx_id) == ["completed"]
    assert len(await live.notifications(trx_id)) == 1
    left = "SELECT count(*) FROM job WHERE kind = 'transfer' AND subject = $1"
    assert await live.db.value(left, trx_id) == 0

    async def has_arrived_late() -> bool:
        past = "SELECT began_at + interval '7 seconds' < now() FROM payout WHERE trx_id = $1"
        return bool(await live.db.value(past, trx_id))

    # Wait for the delayed request, which could otherwise use up a fault that the next test sets.
    await live.until(has_arrived_late)


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "rail"),
    [("after_transfer_is_sent", "a"), ("before_move_commit", "a"), ("after_move_commit", "b")],
)
async def test_43_a_crash_while_a_payout_moves_to_another_rail_leaves_it_on_one_rail(
    live: PayoutInstance, point: str, rail: str
) -> None:
    """The rejection is not saved before the crash, so the first rail gets the payout again."""
    before = await live.balance()
    refusal = {"call": "transfer", "fault": "refuse", "message": "Not enabled", "status": 403}
    await live.control("a/faults", {"next": [refusal]})
    live.arm(point)
    trx_id = await live.pay_out("auto_ngn")
    await live.until_crash(point)
    assert [await live.transfers(trx_id, each) for each in "abc"] == [[], [], []]
    await live.end_leases()
    await _finish_routed(live, trx_id, rail)
    assert await live.balance() == before - PAYABLE


async def _finish_routed(live: PayoutInstance, trx_id: str, rail: str) -> None:
    await live.until_status(trx_id, "completed")
    assert [each for each in "abc" if await live.transfers(trx_id, each)] == [rail]
    assert await live.is_paid_once(trx_id, rail)
    assert await live.steps(trx_id) == ["completed"]
    assert len(await live.notifications(trx_id)) == 1
