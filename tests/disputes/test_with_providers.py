"""Disputes at the simulated providers, from the bank's claim to the outcome in the ledger."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from manilla.disputes.dispute import AnswerState, Dispute, DisputeStatus
from manilla.disputes.tasks import DisputeTasks
from manilla.services import Services
from tests.compliance.files import PDF
from tests.disputes.steps import Disputes, Paid
from tests.payments.shop import Shop
from tests.support import kinds
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator, running_simulator

RAILS = ("paystack", "flutterwave")
FIELDS = {
    "customer_email": "ada@example.com",
    "customer_name": "Ada Obi",
    "customer_phone": "08012345678",
    "service_details": "Shoes",
}


@pytest.fixture(scope="module")
async def simulated_providers(
    services: Services,
    site: object,
) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, RAILS) as running:
        yield running


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    await simulated_providers.reset()
    return simulated_providers


@pytest.fixture
def shop(services: Services, simulator: ProviderSimulator, production: Merchant) -> Shop:
    return Shop(services, simulator, production)


async def _paid(disputes: Disputes, rail: str) -> Paid:
    shop, method = disputes.shop, kinds.BY_RAIL[rail].methods[0]
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, method)
    await shop.simulator.control(f"{rail}/charges/{charge.reference}/pay", {})
    await shop.until(started, "success")
    return Paid(started, charge)


async def _poll(disputes: Disputes) -> None:
    services = disputes.shop.services
    tasks = DisputeTasks(services.db, services.keyring, services.platform, services.rails)
    await tasks.schedule()
    await services.db.execute("UPDATE job SET due_at = now() WHERE kind = 'disputes'")
    await disputes.shop.simulator.run_jobs()


async def _disputed(disputes: Disputes, rail: str, **claim: object) -> tuple[Paid, Dispute]:
    paid = await _paid(disputes, rail)
    await disputes.shop.simulator.control(f"{rail}/charges/{paid.charge.reference}/dispute", claim)

    async def is_opened() -> bool:
        await _poll(disputes)
        return bool(await disputes.of(paid))

    await disputes.shop.simulator.until(is_opened)
    [dispute] = await disputes.of(paid)
    return paid, dispute


async def _until(disputes: Disputes, dispute: Dispute, status: DisputeStatus) -> Dispute:
    async def is_so() -> bool:
        await disputes.db.execute(
            "UPDATE job SET due_at = now() WHERE kind = 'dispute' AND subject = $1", dispute.trx_id
        )
        return (await disputes.now(dispute)).status is status

    await disputes.shop.simulator.until(is_so)
    return await disputes.now(dispute)


@pytest.mark.parametrize("rail", RAILS)
async def test_a_dispute_is_found_contested_and_won(disputes: Disputes, rail: str) -> None:
    _, dispute = await _disputed(disputes, rail)
    withheld = await disputes.shop.account("withheld")
    assert (dispute.status, withheld) == (DisputeStatus.NEEDS_RESPONSE, 100_000)
    key = disputes.tenant, dispute.trx_id
    await disputes.service.set_evidence(*key, "It was delivered.", FIELDS)
    await disputes.service.add_file(*key, "note.pdf", PDF)
    await disputes.service.submit(*key)
    await disputes.shop.simulator.run_job_now("dispute", dispute.trx_id)
    assert (await disputes.now(dispute)).answer is AnswerState.SENT
    # The bank may have decided already.
    action = f"{rail}/disputes/{dispute.provider_reference}/resolve"
    await disputes.shop.simulator.try_control(action, {"status": "won"})
    await _until(disputes, dispute, DisputeStatus.WON)
    assert await disputes.shop.balance() == 100_000


@pytest.mark.parametrize("rail", RAILS)
async def test_an_accepted_dispute_is_taken(disputes: Disputes, rail: str) -> None:
    paid, dispute = await _disputed(disputes, rail)
    await disputes.service.accept(disputes.tenant, dispute.trx_id)
    await _until(disputes, dispute, DisputeStatus.ACCEPTED)
    taken = (await disputes.now(dispute)).taken_minor
    assert (taken, await disputes.shop.balance()) == (100_000, 0)
    assert paid.charge.provider == dispute.provider


@pytest.mark.parametrize("rail", RAILS)
async def test_a_dispute_of_a_part_withholds_the_part(disputes: Disputes, rail: str) -> None:
    _, dispute = await _disputed(disputes, rail, amount=400)
    assert dispute.withheld_minor == 40_000
    assert await disputes.shop.balance() == 60_000


async def test_a_webhook_and_polling_open_one_dispute(disputes: Disputes) -> None:
    paid = await _paid(disputes, "paystack")
    claim = f"paystack/charges/{paid.charge.reference}/dispute"
    await disputes.shop.simulator.control(claim, {})
    await asyncio.gather(_poll(disputes), _poll(disputes))
    await disputes.shop.simulator.until(lambda: disputes.of(paid))
    assert len(await disputes.of(paid)) == 1
    assert await disputes.shop.account("withheld") == 100_000
