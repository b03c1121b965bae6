"""Payouts of different merchants do not wait for each other."""

import asyncio

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.services import Services
from manilla.settings import Settings
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import Site, new_merchant
from tests.support.lock_waits import slow_commits, two_workers, watched
from tests.support.provider_simulator import ProviderSimulator
from tests.support.waiting import until, until_true

MERCHANTS, PAYOUTS = 4, 10


async def test_payouts_of_different_merchants_do_not_wait_for_each_other(
    services: Services,
    settings: Settings,
    simulator: ProviderSimulator,
    site: Site,
    db: Database,
    keyring: Keyring,
    cluster: Cluster,
) -> None:
    payers = []
    for _ in range(MERCHANTS):
        merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
        payer = PayoutMerchant(services, simulator, merchant)
        await payer.fund("1000000")
        payers.append(payer)
    for payer in payers:
        await payer.order()  # postpones the jobs of earlier tests
    await services.banks.refresh()
    created: list[str] = []

    async def are_completed() -> bool:
        number: int = await db.value(
            "SELECT count(*) FROM payout WHERE trx_id = ANY($1) AND status = 'completed'", created
        )
        return number == len(created)

    async with (
        slow_commits(cluster),
        watched(cluster) as waits,
        two_workers(services, settings),
    ):
        orders = [payer.pay_out() for payer in payers for _ in range(PAYOUTS)]
        created += await asyncio.gather(*orders)
        await until(are_completed)
    assert waits.between_merchants() == {}


async def test_a_wait_for_a_row_of_no_merchant_is_seen(owner: Database, cluster: Cluster) -> None:
    await owner.execute("INSERT INTO setting (key, value) VALUES ('test', '1')")
    change = "UPDATE setting SET value = '2' WHERE key = 'test'"
    async with watched(cluster) as waits:
        async with owner.transaction() as first:
            await first.execute(change)
            second = asyncio.create_task(owner.execute(change))
            await until_true(lambda: list(waits.between_merchants()) == ["setting"])
        await second
    await owner.execute("DELETE FROM setting WHERE key = 'test'")
