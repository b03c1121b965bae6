"""A dispute moves with its merchant, and only its cell changes it."""

from datetime import UTC, datetime

import asyncpg
import pytest

from manilla.cells.moving.stored import Step
from manilla.disputes import states, store
from manilla.disputes.states import Reported
from manilla.ledger.scope import Tenant
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState
from tests.compliance.files import PDF
from tests.disputes.steps import LOST, NEEDS_RESPONSE, PROVIDER, WON, Disputes
from tests.moving.movers import Mover
from tests.payments.shop import Shop

JOBS = "SELECT count(*) FROM job WHERE subject = $1 AND parked_at IS NULL"
MONEY = "SELECT balance_minor, short_minor FROM wallet WHERE merchant_id = $1"
MONEY += " AND environment = 'production' AND currency = 'NGN'"


async def test_an_open_dispute_of_a_moved_merchant_ends_in_its_new_cell(mover: Mover) -> None:
    payer = mover.payers["lagos"]
    lagos = Disputes(Shop(payer.services, payer.simulator, payer.merchant))
    paid = await lagos.pay()
    await lagos.empty_wallet()
    dispute = await lagos.open(paid)
    await lagos.service.add_file(lagos.tenant, dispute.trx_id, "note.pdf", PDF)
    tenant = Tenant(dispute.merchant_id, dispute.environment)
    await mover.move()

    async def report(cell: str, state: DisputeState) -> Reported:
        return await states.report(mover.db(cell), PlatformSettings(), PROVIDER, state)

    for status in (NEEDS_RESPONSE, LOST):
        late = await report("lagos", paid.reported(status))
        assert late.problem == "The merchant lives in another cell."
    moved = mover.running("abuja").services.disputes
    file, content = await moved.read_file(tenant, dispute.trx_id, 1)
    assert (file.name, content) == ("note.pdf", PDF)
    assert await mover.db("abuja").number(JOBS, dispute.trx_id) == 1
    for status, money in ((LOST, (0, 1000_00)), (WON, (0, 0))):
        after = (await report("abuja", paid.reported(status))).dispute
        assert after is not None
        assert after.status.value == status.value
        assert tuple(await mover.db("abuja").record(MONEY, tenant.merchant_id)) == money
    assert await mover.broken("abuja") == []
    assert await mover.broken("lagos") == []


async def test_the_new_cell_watches_the_deadline(mover: Mover) -> None:
    payer = mover.payers["lagos"]
    lagos = Disputes(Shop(payer.services, payer.simulator, payer.merchant))
    dispute = await lagos.open(await lagos.pay())
    await mover.move()
    key = dispute.merchant_id, dispute.trx_id
    await mover.db("abuja").execute(
        "UPDATE dispute SET respond_by = $3 WHERE merchant_id = $1 AND trx_id = $2",
        *(*key, datetime(2026, 1, 1, tzinfo=UTC)),
    )
    await mover.simulators["abuja"].run_job_now("dispute", dispute.trx_id)
    missed = await store.dispute(mover.db("abuja"), *key)
    assert missed is not None
    assert missed.is_missed


async def test_a_dispute_that_is_reported_during_a_move_is_found_afterwards(mover: Mover) -> None:
    payer = mover.payers["lagos"]
    lagos = Disputes(Shop(payer.services, payer.simulator, payer.merchant))
    paid = await lagos.pay()
    await mover.move_until(Step.FENCE)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):  # its job runs again later
        await lagos.open(paid)
    await mover.resume()
    state = paid.reported(NEEDS_RESPONSE)
    found = await states.report(mover.db("abuja"), PlatformSettings(), PROVIDER, state)
    assert found.dispute is not None
    assert found.dispute.withheld_minor == 1000_00
    assert await mover.broken("abuja") == []
