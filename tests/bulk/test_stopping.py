"""Stopping a payout file: unsent rows are refunded once, and rows already sent continue."""

import asyncio
from typing import Any

import pytest

from manilla.bulk import batches, paying, stopping
from manilla.bulk.store import BatchStatus
from manilla.kit.jobs.claims import hold_job
from manilla.payouts import states
from manilla.payouts.initiate import SEND
from tests.bulk.payout_file import (
    ADA,
    batch_of,
    confirmed,
    pay_step,
    rows_of,
    states_of,
    tenant_of,
)
from tests.payouts.payout_merchant import PayoutMerchant

FUNDS = 1_000_000  # the merchant's initial balance in kobo


async def _stop(payer: PayoutMerchant, batch_id: str) -> None:
    await batches.stop(payer.services.db, tenant_of(payer), batch_id, by=ADA)


async def _until_ended(payer: PayoutMerchant, batch_id: str) -> None:
    while (await batch_of(payer, batch_id)).status is not BatchStatus.DONE:
        await pay_step(payer, batch_id)


@pytest.fixture
def _short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paying, "ROWS_A_STEP", 3)


@pytest.mark.usefixtures("_short_steps")
async def test_sent_rows_continue_and_all_others_are_refused_and_refunded(
    payer: PayoutMerchant,
) -> None:
    batch_id = await confirmed(payer, [1000] * 6)
    await pay_step(payer, batch_id)
    first, *others = [row.trx_id for row in await rows_of(payer, batch_id)][:3]
    assert first is not None
    await payer.services.db.execute(
        "UPDATE job SET due_at = 'infinity' WHERE subject = ANY($1)", [*others, batch_id]
    )
    await payer.check_now(first)
    assert (await payer.payout(first)).began_at is not None

    await _stop(payer, batch_id)
    assert await states_of(payer, batch_id) == ["paid"] * 3 + ["refused"] * 3
    await _until_ended(payer, batch_id)
    assert await states_of(payer, batch_id) == ["paid", *["refused"] * 5]
    await payer.check_until(first, "completed")
    for trx_id in others:
        canceled = await payer.payout(trx_id or "")
        assert (canceled.status, canceled.guidance) == ("canceled", stopping.WHY)
    assert await payer.balance() == FUNDS - 100_000


@pytest.mark.usefixtures("_short_steps")
async def test_a_worker_that_read_its_rows_before_the_stop_pays_none_of_them(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await confirmed(payer, [1000] * 3)
    pay, has_stopped = paying.BulkPayoutTasks._pay, False

    async def stop_first(self: Any, *given: Any) -> bool:
        nonlocal has_stopped
        if not has_stopped:
            has_stopped = True
            await _stop(payer, batch_id)
        return await pay(self, *given)

    monkeypatch.setattr(paying.BulkPayoutTasks, "_pay", stop_first)
    await pay_step(payer, batch_id)
    await _until_ended(payer, batch_id)
    assert await states_of(payer, batch_id) == ["refused"] * 3
    assert await payer.balance() == FUNDS


async def test_rows_are_either_paid_or_refused_while_workers_run(payer: PayoutMerchant) -> None:
    batch_id = await confirmed(payer, [200] * 30)
    steps = [pay_step(payer, batch_id) for _ in range(3)]
    await asyncio.gather(*steps, _stop(payer, batch_id))
    rows = await rows_of(payer, batch_id)
    # After the stop, a job step has already canceled some of the payouts.
    payouts = await payer.services.db.number(
        "SELECT count(*) FROM payout WHERE merchant_id = $1 AND status = 'pending'",
        payer.merchant.new.id,
    )
    assert payouts == sum(row.state == "paid" for row in rows)
    assert await payer.balance() == FUNDS - payouts * 20_000
    await asyncio.gather(*(pay_step(payer, batch_id) for _ in range(3)))
    await _until_ended(payer, batch_id)
    assert await states_of(payer, batch_id) == ["refused"] * 30
    assert await payer.balance() == FUNDS


async def test_a_crash_in_the_middle_refunds_no_row_twice(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_id = await confirmed(payer, [1000] * 3)
    await pay_step(payer, batch_id)
    await _stop(payer, batch_id)
    settle, calls = states.apply_result_within, 0

    async def crash_at_second(*given: Any, **more: Any) -> bool:
        nonlocal calls
        calls += 1
        is_changed = await settle(*given, **more)
        if calls == 2:
            raise RuntimeError("simulates that the process dies before the commit")
        return is_changed

    with monkeypatch.context() as patched:
        patched.setattr(states, "apply_result_within", crash_at_second)
        with pytest.raises(RuntimeError):
            await pay_step(payer, batch_id)
    assert await payer.balance() == FUNDS - 200_000
    await _until_ended(payer, batch_id)
    assert await states_of(payer, batch_id) == ["refused"] * 3
    assert await payer.balance() == FUNDS


async def test_a_payout_that_a_worker_is_sending_is_not_canceled(payer: PayoutMerchant) -> None:
    batch_id = await confirmed(payer, [1000])
    await pay_step(payer, batch_id)
    [row] = await rows_of(payer, batch_id)
    payout = await payer.payout(row.trx_id or "")
    async with hold_job(payer.services.db, payout.merchant_id, SEND, payout.trx_id) as job:
        assert job is not None
        await _stop(payer, batch_id)
        assert await pay_step(payer, batch_id) == stopping.RETRY_SECONDS
        assert (await payer.payout(payout.trx_id)).status == "pending"
    await _until_ended(payer, batch_id)
    assert (await payer.payout(payout.trx_id)).status == "canceled"
    assert await payer.balance() == FUNDS


async def test_only_a_file_that_is_being_paid_can_be_stopped(payer: PayoutMerchant) -> None:
    batch_id = await confirmed(payer, [1000])
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    [row] = await rows_of(payer, batch_id)
    await payer.check_until(row.trx_id or "", "completed")
    with pytest.raises(batches.NotStoppable):
        await _stop(payer, batch_id)
