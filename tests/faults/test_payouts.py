"""Processes that die or freeze amid a payout: nothing is lost, nothing is paid twice.

Each fault's number is that of docs/faults.md.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest

from tests.faults.cashier import FAILS_LATER, Cashier, stop_worker
from tests.payouts.desk import MANUAL

PAYABLE = 100_000  # of every payout here: its amount, and no fee


@pytest.fixture(scope="module")
async def cashier(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cashier]:
    cashier = await Cashier(tmp_path_factory.mktemp("faults")).open()
    for provider in "abc":
        await cashier.control(f"{provider}/faults", {"settle_seconds": 0.05})
    yield cashier
    await cashier.close()


@pytest.fixture(autouse=True)
async def _books_are_in_order_here(cashier: Cashier) -> AsyncIterator[None]:
    yield
    await cashier.check_books()


async def _warm_up(cashier: Cashier, rail: str) -> None:
    """So that the next request needs no look before its debit: its one statement debits."""
    if rail != MANUAL:
        await cashier.until_status(await cashier.pay_out(rail), "completed")
        await cashier.pay_out(rail)


async def _finish(cashier: Cashier, trx_id: str, rail: str) -> None:
    if rail == MANUAL:
        cashier.instance.command("payout", "complete", trx_id)
    else:
        await cashier.until_status(trx_id, "completed")
        assert await cashier.is_paid_once(trx_id, rail)
        assert await cashier.sends(trx_id, rail) == 1
    [(_, status, _)] = await cashier.notifications(trx_id)
    assert status == "completed"


@pytest.mark.parametrize("rail", ["a", MANUAL])
async def test_1_a_crash_before_the_debit_commits_leaves_nothing_and_a_retry_works(
    cashier: Cashier, rail: str
) -> None:
    await _warm_up(cashier, rail)
    order, before = await cashier.order(rail), await cashier.balance()
    cashier.arm("before_intake_commit")
    assert await cashier.ask(order) is None
    assert cashier.has_crashed("before_intake_commit")
    assert await cashier.payouts_of(order["ref_trx"]) == []
    assert await cashier.balance() == before

    reply = await cashier.ask_until_answered(order)
    assert reply.status == 200, reply.body
    assert await cashier.payouts_of(order["ref_trx"]) == [reply.json["trx_id"]]
    assert await cashier.balance() == before - PAYABLE
    await _finish(cashier, reply.json["trx_id"], rail)


@pytest.mark.parametrize("rail", ["a", MANUAL])
async def test_2_a_crash_between_the_commit_and_the_answer_the_retry_is_told_the_first_trx_id(
    cashier: Cashier, rail: str
) -> None:
    await _warm_up(cashier, rail)
    order, before = await cashier.order(rail), await cashier.balance()
    cashier.arm("after_intake_commit")
    assert await cashier.ask(order) is None
    assert cashier.has_crashed("after_intake_commit")
    [trx_id] = await cashier.payouts_of(order["ref_trx"])

    reply = await cashier.ask_until_answered(order)
    assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
    assert reply.json["trx_id"] == trx_id
    assert await cashier.payouts_of(order["ref_trx"]) == [trx_id]
    assert await cashier.balance() == before - PAYABLE
    await _finish(cashier, trx_id, rail)


@pytest.mark.parametrize("rail", ["a", "b", "c"])
@pytest.mark.parametrize("point", ["before_transfer_is_sent", "after_send_is_begun"])
async def test_3_a_crash_before_the_transfer_is_sent_it_is_sent_once_under_its_reference(
    cashier: Cashier, point: str, rail: str
) -> None:
    cashier.arm(point)
    trx_id = await cashier.pay_out(rail)
    await cashier.until_crash(point)
    assert await cashier.transfers(trx_id, rail) == []
    assert (await cashier.payout(trx_id))["status"] == "pending"
    await cashier.end_leases()
    await _finish(cashier, trx_id, rail)
    assert await cashier.steps(trx_id) == ["completed"]


@pytest.mark.parametrize("rail", ["a", "b", "c"])
async def test_4_a_crash_after_the_transfer_is_sent_leaves_one_transfer_at_the_provider(
    cashier: Cashier, rail: str
) -> None:
    cashier.arm("after_transfer_is_sent")
    trx_id = await cashier.pay_out(rail)
    await cashier.until_crash("after_transfer_is_sent")
    await cashier.end_leases()
    await _finish(cashier, trx_id, rail)
    assert await cashier.steps(trx_id) == ["completed"]


async def test_4_a_refusal_that_died_with_its_process_is_not_taken_for_one_later(
    cashier: Cashier,
) -> None:
    """It is asked about, not found, and sent again under its reference: then it is accepted."""
    before = await cashier.balance()
    refusal = {"call": "transfer", "fault": "refuse", "message": "Request refused", "status": 422}
    await cashier.control("a/faults", {"next": [refusal]})
    cashier.arm("after_transfer_is_sent")
    trx_id = await cashier.pay_out()
    await cashier.until_crash("after_transfer_is_sent")
    assert (await cashier.payout(trx_id))["status"] == "pending"
    await cashier.end_leases()
    await cashier.until_status(trx_id, "completed")
    assert await cashier.is_paid_once(trx_id)
    assert await cashier.sends(trx_id) == 2
    assert await cashier.balance() == before - PAYABLE


@pytest.mark.parametrize(
    "point", ["between_status_and_refund", "before_payout_commit", "after_payout_commit"]
)
async def test_5_a_crash_between_status_and_refund_leaves_both_or_neither(
    cashier: Cashier, point: str
) -> None:
    before = await cashier.balance()
    cashier.arm(point)
    trx_id = await cashier.pay_out(account=FAILS_LATER)
    await cashier.until_crash(point)
    is_failed = (await cashier.payout(trx_id))["status"] == "failed"
    assert is_failed is (point == "after_payout_commit")
    assert await cashier.balance() == before - (0 if is_failed else PAYABLE)
    assert len(await cashier.notifications(trx_id)) == (1 if is_failed else 0)
    await cashier.check_books()

    await cashier.end_leases()
    await cashier.until_status(trx_id, "failed")
    assert await cashier.balance() == before
    assert await cashier.steps(trx_id) == ["failed"]
    [(_, *told)] = await cashier.notifications(trx_id)
    assert told == ["failed", "Payout Failed"]
    assert await cashier.is_paid_once(trx_id)


@pytest.mark.parametrize(
    ("account", "status"), [("0000000000", "completed"), (FAILS_LATER, "failed")]
)
async def test_6_a_crash_after_a_final_state_its_notification_is_there_and_stays_the_same(
    cashier: Cashier, account: str, status: str
) -> None:
    """That it then goes out is the notifier's to prove."""
    cashier.arm("after_payout_commit")
    trx_id = await cashier.pay_out(account=account)
    await cashier.until_crash("after_payout_commit")
    [(notification_id, told, _)] = await cashier.notifications(trx_id)
    assert told == status
    await cashier.end_leases()
    await cashier.until_status(await cashier.pay_out(), "completed")  # the new worker lives
    assert [id_ for id_, *_ in await cashier.notifications(trx_id)] == [notification_id]


async def test_26_postgresql_killed_under_load_loses_no_payout_and_pays_none_twice(
    cashier: Cashier,
) -> None:
    before = await cashier.balance()
    orders = [await cashier.order() for _ in range(40)]
    replies: dict[str, str] = {}

    async def pay_out(number: int) -> None:
        await asyncio.sleep(number * 0.05)
        reply = await cashier.ask_until_answered(orders[number])
        assert reply.status == 200 or reply.code == "DUPLICATE_REFERENCE", reply.body
        replies[orders[number]["ref_trx"]] = reply.json["trx_id"]

    load = [asyncio.create_task(pay_out(number)) for number in range(len(orders))]
    for _ in range(2):
        await asyncio.sleep(0.6)
        os.kill(cashier.instance.postmaster(), signal.SIGKILL)
    await asyncio.gather(*load)
    await cashier.end_leases()
    for ref_trx, trx_id in replies.items():
        await cashier.until_status(trx_id, "completed")
        assert await cashier.payouts_of(ref_trx) == [trx_id]
        assert await cashier.is_paid_once(trx_id)
    assert await cashier.balance() == before - len(orders) * PAYABLE


@pytest.mark.parametrize("has_arrived", [True, False])
async def test_30_a_worker_frozen_past_its_lease_changes_nothing_when_it_resumes(
    cashier: Cashier, has_arrived: bool
) -> None:
    """Where its transfer has not arrived yet, the other may send it too; the provider takes one."""
    await cashier.pay_out()  # what is asked before a debit is known, and costs no time below
    await cashier.control("a/faults", {"latency_seconds": 1.5 if has_arrived else 6})
    trx_id = await cashier.pay_out()

    async def is_being_sent() -> bool:
        return (await cashier.payout(trx_id))["began_at"] is not None

    await cashier.until(is_being_sent)
    frozen = cashier.worker()
    os.kill(frozen, signal.SIGSTOP)
    await cashier.control("a/faults", {"latency_seconds": 0})

    async def is_at_the_provider() -> bool:
        return await cashier.transfers(trx_id) != []

    if has_arrived:
        await cashier.until(is_at_the_provider)
    other = cashier.start_worker()
    try:
        await cashier.end_leases()
        await cashier.until_status(trx_id, "completed")
        finished = await cashier.payout(trx_id)
    finally:
        os.kill(frozen, signal.SIGCONT)
        stop_worker(other)
    await cashier.until_status(await cashier.pay_out(), "completed")  # by who was frozen
    assert cashier.worker() == frozen
    assert await cashier.payout(trx_id) == finished
    assert [t["reference"] for t in await cashier.transfers(trx_id)] == [trx_id]
    assert await cashier.sends(trx_id) <= (1 if has_arrived else 2)
    assert await cashier.steps(trx_id) == ["completed"]
    assert len(await cashier.notifications(trx_id)) == 1
    left = "SELECT count(*) FROM job WHERE kind = 'transfer' AND subject = $1"
    assert await cashier.db.value(left, trx_id) == 0
