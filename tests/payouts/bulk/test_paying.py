"""Rows of a confirmed payout file that temporarily cannot be paid."""

from manilla.ledger.scope import Tenant
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.methods.method import MethodKind
from manilla.payouts.bulk import batches, file, store
from manilla.payouts.bulk.store import BatchRow
from tests.payouts.payout_merchant import BANKS, RAILS, PayoutMerchant, new_account


async def _confirmed(payer: PayoutMerchant, amounts: list[int]) -> str:
    """Creates a confirmed payout file with these rows, none of them paid yet."""
    await payer.order()
    services, tenant = payer.services, Tenant(payer.merchant.new.id, payer.merchant.environment)
    method = services.methods.by_code(MethodKind.WITHDRAW, RAILS["a"])
    assert method is not None
    rows = [f"{amount},{BANKS['a']},{new_account()},Ada,,July" for amount in amounts]
    batch_id = await batches.draft(
        services.db,
        services.previews,
        await services.directory.of(tenant.environment, tenant.merchant_id),
        method,
        file_name="july.csv",
        raw="\n".join([",".join(file.COLUMNS), *rows]).encode(),
        uploaded_by="ada@example.com",
    )
    await batches.confirm(services.db, tenant, batch_id, by="ada@example.com")
    return batch_id


async def _rows(payer: PayoutMerchant, batch_id: str) -> list[BatchRow]:
    merchant_id = payer.merchant.new.id
    return await store.rows(payer.services.db, merchant_id, batch_id, limit=100)


async def test_rows_of_a_merchant_that_was_disabled_are_rejected_and_debit_nothing(
    payer: PayoutMerchant,
) -> None:
    batch_id = await _confirmed(payer, [1000, 2000])
    await payer.change(MerchantUpdate(status=MerchantStatus.DISABLED))
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    rows = await _rows(payer, batch_id)
    assert [row.state for row in rows] == ["refused", "refused"]
    assert {row.remark for row in rows} == {"The merchant account is disabled."}
    assert await payer.balance() == 1_000_000


async def test_a_row_waits_for_a_provider_that_does_not_answer_for_a_moment(
    payer: PayoutMerchant,
) -> None:
    batch_id = await _confirmed(payer, [1000, 2000])
    fault = {"call": "resolve", "fault": "5xx_before"}
    await payer.simulator.control("a/faults", {"next": [fault]})
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    assert [row.state for row in await _rows(payer, batch_id)] == ["ready", "ready"]
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    assert [row.state for row in await _rows(payer, batch_id)] == ["paid", "paid"]
    assert await payer.balance() == 700_000


async def test_a_row_does_not_wait_for_its_provider_for_ever(payer: PayoutMerchant) -> None:
    batch_id = await _confirmed(payer, [1000])
    await payer.services.db.execute(
        "UPDATE payout_batch SET confirmed_at = confirmed_at - interval '2 hours' WHERE id = $1",
        batch_id,
    )
    await payer.simulator.control(
        "a/faults", {"next": [{"call": "resolve", "fault": "5xx_before"}]}
    )
    await payer.simulator.run_job_now(batches.PAY, batch_id)
    [row] = await _rows(payer, batch_id)
    assert (row.state, "Nothing was debited" in (row.remark or "")) == ("refused", True)
