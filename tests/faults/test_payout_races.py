"""Concurrent actions on one payout, reference or wallet: one succeeds, and the balance is exact.

The numbers in the test names refer to docs/faults.md.
"""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from manilla.kit import jobs
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.jobs import claims
from manilla.payouts import decisions, states
from manilla.payouts.decisions import NotToDecide
from manilla.payouts.payout import Payout
from manilla.transfers import sending
from manilla.transfers.events import Source, TransferEvent, TransferResult
from manilla.transfers.sending import PAYOUTS
from tests.faults.stalled_worker import StalledWorker, Step, end_lease
from tests.payouts.payout_merchant import INITIATE, MANUAL, PayoutMerchant
from tests.support.client import Reply
from tests.support.rows import first_short

FULL, DEBITED = 1_000_000, 900_000
MINIMUM = 500  # Every payout method accepts this amount.
FAILED = TransferResult(TransferEvent.FAILED, Source.STATUS_QUERY)


@pytest.fixture(autouse=True)
async def _postpone_other_jobs(payer: PayoutMerchant) -> None:
    await payer.services.db.execute(
        "UPDATE job SET due_at = 'infinity' WHERE merchant_id <> $1", payer.merchant.new.id
    )
    for rail in "abc":
        await payer.simulator.control(f"{rail}/faults", {"settle_seconds": 3600})


async def _count(payer: PayoutMerchant) -> int:
    count: int = await payer.services.db.value(
        "SELECT count(*) FROM payout WHERE merchant_id = $1", payer.merchant.new.id
    )
    return count


async def _request_concurrently(payer: PayoutMerchant, orders: list[dict[str, Any]]) -> list[Reply]:
    """Sends the requests concurrently, from IP addresses with separate rate limits."""
    callers = [payer.from_new_ip().merchant for _ in orders]
    return await asyncio.gather(
        *(
            caller.post_until_served(INITIATE, order)
            for caller, order in zip(callers, orders, strict=True)
        )
    )


@pytest.mark.parametrize("rail", first_short(["a", MANUAL]))
@pytest.mark.parametrize("is_known", [True, False])
async def test_23_of_64_concurrent_requests_with_one_reference_one_succeeds(
    payer: PayoutMerchant, rail: str, is_known: bool
) -> None:
    """All other requests get the first one's outcome, whether or not the account name is cached."""
    order = await payer.order(rail)
    if rail == "a":
        order["beneficiary"]["account_number"] = (
            f"7{payer.merchant.new.id:09d}"  # No other test uses this account.
        )
    if is_known:
        await payer.pay_out(rail, beneficiary=order["beneficiary"])
    else:
        await payer.simulator.control("a/faults", {"latency_seconds": 0.2})
    before, count = await payer.balance(), await _count(payer)
    replies = await _request_concurrently(payer, [order] * 64)
    assert Counter(reply.code for reply in replies) == {None: 1, "DUPLICATE_REFERENCE": 63}
    assert len({reply.json["trx_id"] for reply in replies}) == 1
    assert await payer.balance() == before - 100_000
    assert await _count(payer) == count + 1
    await payer.simulator.control("a/faults", {"latency_seconds": 0})
    await payer.simulator.run_jobs()
    assert len(await payer.transfers()) == (1 + is_known if rail == "a" else 0)


async def test_23_64_concurrent_requests_beyond_the_balance_are_all_rejected(
    payer: PayoutMerchant,
) -> None:
    order = await payer.order(MANUAL, payout_amount=10_001)
    replies = await _request_concurrently(payer, [order] * 64)
    assert Counter(reply.code for reply in replies) == {"insufficient_balance": 64}
    assert await payer.balance() == FULL


@pytest.mark.parametrize("rail", first_short(["a", MANUAL]))
async def test_24_parallel_debits_beyond_the_balance_never_overdraw_and_sum_exactly(
    payer: PayoutMerchant, rail: str
) -> None:
    # The total of these amounts far exceeds the balance of 10,000.00.
    amounts = [700 + 13 * number for number in range(40)]
    orders = [await payer.order(rail, payout_amount=amount) for amount in amounts]
    replies = await _request_concurrently(payer, orders)
    assert {reply.status for reply in replies} == {200, 422}
    assert {reply.code for reply in replies} == {None, "insufficient_balance"}
    taken = sum(amount for amount, reply in zip(amounts, replies, strict=True) if not reply.code)
    assert await payer.balance() == FULL - taken * 100 >= 0
    assert await payer.account("in_flight") == taken * 100
    # The remaining balance can still be paid out.
    left = await payer.balance() // 100
    if left >= MINIMUM:
        await payer.pay_out(rail, payout_amount=left)
        assert await payer.balance() < 100
    if rail == "a":
        await payer.simulator.run_jobs()
        assert sum(transfer["amount"] for transfer in await payer.transfers()) * 100 == (
            FULL - await payer.balance()
        )


async def _send_webhook(payer: PayoutMerchant, trx_id: str, event: TransferResult) -> bool:
    """Sends a webhook like a provider, which sends it again if the server is overloaded."""
    while True:
        with contextlib.suppress(Unavailable):
            return await states.apply_result(
                payer.services.db, payer.merchant.new.id, trx_id, event
            )


async def test_24_concurrent_debits_and_refunds_sum_exactly(payer: PayoutMerchant) -> None:
    failing = [await payer.pay_out(payout_amount=500) for _ in range(20)]
    assert await payer.balance() == 0
    orders = [await payer.order(payout_amount=700) for _ in range(20)]
    replies, _ = await asyncio.gather(
        _request_concurrently(payer, orders),
        asyncio.gather(
            *(
                _send_webhook(
                    payer, trx_id, TransferResult(TransferEvent.FAILED, Source.STATUS_QUERY)
                )
                for trx_id in failing * 3
            )
        ),
    )
    taken = sum(reply.status == 200 for reply in replies)
    assert await payer.balance() == FULL - taken * 70_000


@pytest.mark.parametrize("both_agree", [True, False])
async def test_25_of_two_administrators_deciding_a_payout_one_gets_an_error(
    payer: PayoutMerchant, both_agree: bool
) -> None:
    db = payer.services.db
    await payer.fund("20000")
    for number in range(20):
        before = await payer.balance()
        trx_id = await payer.pay_out(MANUAL)
        both = [
            decisions.complete(db, trx_id, "BANK-1"),
            decisions.complete(db, trx_id, "BANK-2")
            if both_agree
            else decisions.reject(db, payer.services.rails, trx_id, "The name is another."),
        ]
        if number % 2:
            both.reverse()
        results = await asyncio.gather(*both, return_exceptions=True)
        [winner] = [result for result in results if isinstance(result, Payout)]
        [loser] = [result for result in results if isinstance(result, Refusal)]
        assert isinstance(loser, NotToDecide)
        assert loser.text == f"The payout is {winner.status} already."
        [notified] = await payer.notifications(trx_id)
        assert notified["status"] == (await payer.payout(trx_id)).status == winner.status
        assert await payer.balance() == before - (100_000 if winner.status == "completed" else 0)
    # If the transfer is reported as paid after the refund, a case is opened.
    assert {kind for kind, _ in await payer.cases()} <= (set() if both_agree else {"contradiction"})


@pytest.mark.parametrize("step", list(Step))
async def test_30_a_worker_stalled_past_its_lease_cannot_act_on_a_job_taken_over(
    payer: PayoutMerchant, step: Step
) -> None:
    trx_id = await payer.pay_out()
    stalled = StalledWorker(payer.services, step)
    await stalled.stall()
    await payer.simulator.run_jobs()
    job = await _job(payer, trx_id)
    await stalled.resume()
    assert (
        await _job(payer, trx_id) == job
    )  # The worker without the lease neither finished nor rescheduled the job.
    [transfer] = await payer.transfers()
    assert (transfer["reference"], transfer["amount"]) == (trx_id, 1000)
    # Only a worker that had recorded the start of sending may still send, with the same reference.
    assert transfer["duplicates"] == (1 if step is Step.BEFORE_SEND else 0)
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.balance() == DEBITED

    await payer.simulator.control(f"a/transfers/{trx_id}/settle", {"status": "success"})
    await payer.check_now(trx_id)
    await payer.until(trx_id, "completed")
    assert len(await payer.notifications(trx_id)) == 1
    assert await payer.cases() == []


async def _job(payer: PayoutMerchant, trx_id: str) -> tuple[object, ...]:
    job = "SELECT due_at, fence, attempts, failures FROM job WHERE kind = $1 AND subject = $2"
    return tuple(await payer.services.db.record(job, "transfer", trx_id))


async def test_30_a_worker_with_an_older_fence_may_not_start(payer: PayoutMerchant) -> None:
    db = payer.services.db
    trx_id = await payer.pay_out()
    [stalled] = await claims.claim(db, {"transfer": 10})
    await end_lease(db, trx_id)
    [holder] = await claims.claim(db, {"transfer": 10})
    assert await sending.mark(db, PAYOUTS, [await payer.mark_of(stalled)]) == [False]
    assert (await payer.payout(trx_id)).began_at is None
    assert await sending.mark(db, PAYOUTS, [await payer.mark_of(holder)]) == [True]
    # The same worker cannot send the transfer a second time.
    assert await sending.mark(db, PAYOUTS, [await payer.mark_of(holder)]) == [False]


@pytest.mark.parametrize(
    ("status", "message"),
    first_short(
        [
            (402, "Insufficient funds in disbursement wallet"),
            (403, "IP address is not whitelisted"),
            (422, "Refused"),
        ]
    ),
)
@pytest.mark.parametrize("step", [Step.BEFORE_SEND, Step.BEFORE_SAVE])
async def test_30_a_refusal_seen_by_a_stalled_worker_refunds_nothing_sent_by_another(
    payer: PayoutMerchant, step: Step, status: int, message: str
) -> None:
    """After two transfer requests, the rejection of one does not prove that nothing was paid."""
    trx_id = await payer.pay_out()
    refusal = {"call": "transfer", "fault": "refuse", "status": status, "message": message}
    stalled = StalledWorker(payer.services, step)
    if step is Step.BEFORE_SAVE:
        await payer.simulator.control("a/faults", {"next": [refusal]})
    await stalled.stall()
    # Another worker queries the transfer, does not find it, and sends it again.
    await payer.simulator.run_jobs()
    assert [transfer["reference"] for transfer in await payer.transfers()] == [trx_id]
    if step is Step.BEFORE_SEND:
        await payer.simulator.control("a/faults", {"next": [refusal]})
    await stalled.resume()
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.balance() == DEBITED
    await payer.simulator.control(f"a/transfers/{trx_id}/settle", {"status": "success"})
    await payer.check_now(trx_id)
    await payer.until(trx_id, "completed")
    assert await payer.balance() == DEBITED
    assert await payer.cases() == []


async def test_30_a_payout_requeued_during_a_send_is_refunded_only_if_nothing_was_sent(
    payer: PayoutMerchant,
) -> None:
    """An operator funds the provider and queues the payout again before the rejection is saved."""
    trx_id = await payer.pay_out()
    refusal = {"call": "transfer", "fault": "refuse", "message": "Insufficient funds"}
    await payer.simulator.control("a/faults", {"next": [{**refusal, "status": 402}]})
    slow = StalledWorker(payer.services, Step.BEFORE_SAVE)
    await slow.stall(lease_ends=False)
    await decisions.requeue(payer.services.db, trx_id)
    await payer.simulator.run_jobs()
    await slow.resume()
    is_refunded = (await payer.payout(trx_id)).status == "failed"
    assert is_refunded is (await payer.transfers() == [])
    assert await payer.balance() == (FULL if is_refunded else DEBITED)


async def test_30_each_claim_has_a_new_fence_number(payer: PayoutMerchant) -> None:
    """A stalled worker's fence number is outdated, even if the job was created again."""
    db, trx_id = payer.services.db, await payer.pay_out()
    [stalled] = await claims.claim(db, {"transfer": 10})
    await end_lease(db, trx_id)
    await payer.simulator.run_jobs()
    await payer.simulator.control(f"a/transfers/{trx_id}/settle", {"status": "success"})
    await payer.check_now(trx_id)
    await payer.until(trx_id, "completed")
    await jobs.put(db, payer.merchant.new.id, "transfer", trx_id)  # a webhook does this
    [holder] = await claims.claim(db, {"transfer": 10})
    assert holder.fence > stalled.fence


@pytest.mark.parametrize("rounds", first_short([60, 1000]))
async def test_20_payouts_settled_three_times_concurrently_change_once_each(
    payer: PayoutMerchant, rounds: int
) -> None:
    at_once = 20
    db, merchant_id = payer.services.db, payer.merchant.new.id
    await payer.fund(str(1000 * rounds))
    before = await payer.balance()
    order = await payer.order()
    for first in range(0, rounds, at_once):
        caller = payer.from_new_ip()
        references = [f"{order['ref_trx']}-{n}" for n in range(first, first + at_once)]
        replies = await _request_concurrently(
            payer, [{**order, "ref_trx": ref} for ref in references]
        )
        trx_ids = [reply.json["trx_id"] for reply in replies]
        delivered, failed = trx_ids[::2], trx_ids[1::2]
        outcomes = ((TransferEvent.DELIVERED, delivered), (TransferEvent.FAILED, failed))
        sources = (Source.STATUS_QUERY, Source.RECONCILIATION)
        await asyncio.gather(
            *(
                _send_webhook(payer, trx_id, TransferResult(event, source))
                for source in sources
                for event, those in outcomes
                for trx_id in those
            ),
            *(caller.verify(trx_id) for trx_id in trx_ids),
        )
    assert await payer.balance() == before - rounds // 2 * 100_000
    counts = """
        SELECT (SELECT count(*) FROM notification WHERE merchant_id = $1) AS notified,
               (SELECT count(DISTINCT trx_id) FROM notification WHERE merchant_id = $1) AS payouts,
               (SELECT count(*) FROM timeline
                 WHERE merchant_id = $1 AND to_status <> from_status) AS steps"""
    assert tuple(await db.record(counts, merchant_id)) == (rounds, rounds, rounds)
    assert await payer.cases() == []
