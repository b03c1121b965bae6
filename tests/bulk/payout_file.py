"""Creates payout files for a production merchant, and runs the worker's steps that pay them."""

from collections.abc import Sequence

from manilla.bulk import batches, drafts, file, store
from manilla.bulk.drafts import Drafting
from manilla.bulk.paying import BulkPayoutTasks
from manilla.bulk.store import Batch, BatchRow
from manilla.kit.jobs import Job
from manilla.ledger.scope import Tenant
from manilla.methods.method import MethodKind
from manilla.people.second_person import Decider
from tests.payouts.payout_merchant import BANKS, RAILS, PayoutMerchant, new_account

ADA = Decider(1, "ada@example.com")


def tenant_of(payer: PayoutMerchant) -> Tenant:
    return Tenant(payer.merchant.new.id, payer.merchant.environment)


async def drafting_of(payer: PayoutMerchant) -> Drafting:
    await payer.order()
    services, tenant = payer.services, tenant_of(payer)
    method = services.methods.by_code(MethodKind.WITHDRAW, RAILS["a"])
    assert method is not None
    caller = await services.directory.of(tenant.environment, tenant.merchant_id)
    return Drafting(services.db, services.previews, caller, method)


async def drafted(payer: PayoutMerchant, rows: Sequence[str]) -> str:
    """Uploads a payout file with these rows, without checking the beneficiaries' names yet."""
    return await drafts.draft(
        await drafting_of(payer),
        file_name="july.csv",
        raw="\n".join([",".join(file.COLUMNS), *rows]).encode(),
        uploaded_by=ADA.email,
    )


async def confirmed(payer: PayoutMerchant, amounts: Sequence[int]) -> str:
    """Creates a confirmed payout file with these rows, none of which is paid yet."""
    rows = [f"{amount},{BANKS['a']},{new_account()},Ada,,July" for amount in amounts]
    batch_id = await drafted(payer, rows)
    await payer.simulator.run_job_now(drafts.NAMES, batch_id)
    while (await batch_of(payer, batch_id)).unchecked:
        await payer.simulator.run_job_now(drafts.NAMES, batch_id)
    db, tenant = payer.services.db, tenant_of(payer)
    await batches.confirm(db, tenant, batch_id, by=ADA, accepts_names=True)
    # Simulate that another worker, without the cached names, pays the rows.
    payer.services.resolver._kept.clear()
    return batch_id


async def batch_of(payer: PayoutMerchant, batch_id: str) -> Batch:
    return await batches.find(payer.services.db, tenant_of(payer), batch_id)


async def rows_of(payer: PayoutMerchant, batch_id: str) -> list[BatchRow]:
    merchant_id = payer.merchant.new.id
    return await store.rows(payer.services.db, merchant_id, batch_id, limit=100)


async def states_of(payer: PayoutMerchant, batch_id: str) -> list[str]:
    return [row.state for row in await rows_of(payer, batch_id)]


async def pay_step(payer: PayoutMerchant, batch_id: str) -> float | None:
    """Runs one step of the job that pays the file, without sending a payout to a provider."""
    services = payer.services
    tasks = BulkPayoutTasks(services.db, services.directory, services.methods, services.payouts)
    return await tasks.advance(Job(payer.merchant.new.id, batches.PAY, batch_id, 0, 0, 0))
