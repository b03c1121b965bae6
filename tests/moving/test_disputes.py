"""A dispute moves with its merchant, and ends in the new cell."""

from manilla.disputes import states
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
