"""Some rows of a confirmed payout file temporarily cannot be paid."""

import asyncpg
import pytest

from manilla.bulk import batches
from manilla.kit.database.connections import Database
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.proofs import proofs
from tests.bulk.payout_file import confirmed, rows_of
from tests.payouts.payout_merchant import PayoutMerchant


async def test_rows_of_a_merchant_that_was_disabled_are_rejected_and_debit_nothing(
    payer: PayoutMerchant,
) -> None:
    batch_id = await confirmed(payer, [1000, 2000])
    await payer.change(MerchantUpdate(status=MerchantStatus.DISABLED))
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    rows = await rows_of(payer, batch_id)
    assert [row.state for row in rows] == ["refused", "refused"]
    assert {row.remark for row in rows} == {"The merchant account is disabled."}
    assert await payer.balance() == 1_000_000


async def test_a_row_waits_for_a_provider_that_does_not_answer_for_a_moment(
    payer: PayoutMerchant,
) -> None:
    batch_id = await confirmed(payer, [1000, 2000])
    fault = {"call": "resolve", "fault": "5xx_before"}
    await payer.simulator.control("a/faults", {"next": [fault]})
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    assert [row.state for row in await rows_of(payer, batch_id)] == ["ready", "ready"]
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    assert [row.state for row in await rows_of(payer, batch_id)] == ["paid", "paid"]
    assert await payer.balance() == 700_000


async def test_a_row_does_not_wait_for_its_provider_for_ever(payer: PayoutMerchant) -> None:
    batch_id = await confirmed(payer, [1000])
    await payer.services.db.execute(
        "UPDATE payout_batch SET confirmed_at = confirmed_at - interval '2 hours' WHERE id = $1",
        batch_id,
    )
    await payer.simulator.control(
        "a/faults", {"next": [{"call": "resolve", "fault": "5xx_before"}]}
    )
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    [row] = await rows_of(payer, batch_id)
    assert (row.state, "Nothing was debited" in (row.remark or "")) == ("refused", True)


@pytest.mark.parametrize(
    "change", ["account_number = '9876543210'", "amount_minor = amount_minor + 1"]
)
async def test_a_file_whose_rows_were_changed_in_the_database_is_not_paid(
    payer: PayoutMerchant, db: Database, owner: Database, change: str
) -> None:
    batch_id = await confirmed(payer, [1000, 2000])
    with pytest.raises(asyncpg.RaiseError, match="never change"):
        await db.execute(f"UPDATE payout_batch_row SET {change} WHERE batch_id = $1", batch_id)
    await owner.execute("ALTER TABLE payout_batch_row DISABLE TRIGGER as_accepted")
    last = f"number = (SELECT max(number) FROM payout_batch_row WHERE batch_id = '{batch_id}')"
    try:
        await owner.execute(
            f"UPDATE payout_batch_row SET {change} WHERE batch_id = $1 AND {last}", batch_id
        )
        await payer.simulator.run_job_now(batches.PAY, batch_id)
        rows = await rows_of(payer, batch_id)
        assert {(row.state, row.remark) for row in rows} == {("refused", batches.ALTERED)}
        assert await payer.balance() == 1_000_000
        found = await proofs.check(db)
        assert [each.name for each in found if each.count] == ["payout_files_are_as_confirmed"]
    finally:
        await owner.execute("DELETE FROM payout_batch_row WHERE batch_id = $1", batch_id)
        await owner.execute("DELETE FROM payout_batch WHERE id = $1", batch_id)
        await owner.execute("ALTER TABLE payout_batch_row ENABLE TRIGGER as_accepted")
