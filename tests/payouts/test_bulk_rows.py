"""Rows of a confirmed payout file while something keeps them from being paid."""

from manilla.ledger.scope import Tenant
from manilla.merchants.merchants import Change, Status
from manilla.methods.method import Kind
from manilla.payouts import bulk, bulk_file, bulk_queries
from manilla.payouts.bulk_queries import BatchRow
from manilla.payouts.preview import Previews
from tests.payouts.desk import BANKS, RAILS, Desk, new_account


async def _confirmed(desk: Desk, amounts: list[int]) -> str:
    """A file of these rows, confirmed and not paid yet."""
    await desk.order()
    services, tenant = desk.services, Tenant(desk.merchant.new.id, desk.merchant.environment)
    method = services.methods.by_code(Kind.WITHDRAW, RAILS["a"])
    assert method is not None
    previews = Previews(
        *(services.db, services.platform, services.methods, services.rails),
        *(services.banks, services.resolver),
    )
    rows = [f"{amount},{BANKS['a']},{new_account()},Ada,,July" for amount in amounts]
    batch_id = await bulk.draft(
        services.db,
        previews,
        await services.directory.of(tenant.environment, tenant.merchant_id),
        method,
        file_name="july.csv",
        raw="\n".join([",".join(bulk_file.COLUMNS), *rows]).encode(),
        uploaded_by="ada@example.com",
    )
    await bulk.confirm(services.db, tenant, batch_id, by="ada@example.com")
    return batch_id


async def _rows(desk: Desk, batch_id: str) -> list[BatchRow]:
    merchant_id = desk.merchant.new.id
    return await bulk_queries.rows(desk.services.db, merchant_id, batch_id, limit=100)


async def test_rows_of_a_merchant_that_was_disabled_are_refused_and_debit_nothing(
    desk: Desk,
) -> None:
    batch_id = await _confirmed(desk, [1000, 2000])
    await desk.change(Change(status=Status.DISABLED))
    await desk.world.run_job_now(bulk.PAY, batch_id)
    rows = await _rows(desk, batch_id)
    assert [row.state for row in rows] == ["refused", "refused"]
    assert {row.remark for row in rows} == {"The merchant account is disabled."}
    assert await desk.balance() == 1_000_000


async def test_a_row_waits_for_a_provider_that_does_not_answer_for_a_moment(desk: Desk) -> None:
    batch_id = await _confirmed(desk, [1000, 2000])
    fault = {"call": "resolve", "fault": "5xx_before"}
    await desk.world.control("a/faults", {"next": [fault]})
    await desk.world.run_job_now(bulk.PAY, batch_id)
    assert [row.state for row in await _rows(desk, batch_id)] == ["ready", "ready"]
    await desk.world.run_job_now(bulk.PAY, batch_id)
    assert [row.state for row in await _rows(desk, batch_id)] == ["paid", "paid"]
    assert await desk.balance() == 700_000


async def test_a_row_does_not_wait_for_its_provider_for_ever(desk: Desk) -> None:
    batch_id = await _confirmed(desk, [1000])
    await desk.services.db.execute(
        "UPDATE payout_batch SET confirmed_at = confirmed_at - interval '2 hours' WHERE id = $1",
        batch_id,
    )
    await desk.world.control("a/faults", {"next": [{"call": "resolve", "fault": "5xx_before"}]})
    await desk.world.run_job_now(bulk.PAY, batch_id)
    [row] = await _rows(desk, batch_id)
    assert (row.state, "Nothing was debited" in (row.remark or "")) == ("refused", True)
