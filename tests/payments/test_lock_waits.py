"""Payments to different merchants do not wait for each other."""

import asyncio

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.services import Services
from manilla.settings import Settings
from tests.payments.shop import Shop
from tests.support.client import Site, new_merchant
from tests.support.lock_waits import slow_commits, two_workers, watched
from tests.support.provider_simulator import ProviderSimulator
from tests.support.waiting import until

MERCHANTS, PAYMENTS = 4, 5


async def _pay(shop: Shop) -> str:
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providera-ngn"))
    return started.trx_id


async def test_payments_to_different_merchants_do_not_wait_for_each_other(
    services: Services,
    settings: Settings,
    simulator: ProviderSimulator,
    site: Site,
    db: Database,
    keyring: Keyring,
    cluster: Cluster,
) -> None:
    shops = []
    for _ in range(MERCHANTS):
        merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
        shops.append(Shop(services, simulator, merchant))
    created: list[str] = []

    async def are_credited() -> bool:
        number: int = await db.value(
            "SELECT count(*) FROM payment WHERE trx_id = ANY($1) AND status = 'success'", created
        )
        return number == len(created)

    async with (
        slow_commits(cluster),
        watched(cluster) as waits,
        two_workers(services, settings),
    ):
        for _ in range(PAYMENTS):
            created += await asyncio.gather(*(_pay(shop) for shop in shops))
        await until(are_credited)
    assert waits.between_merchants() == {}
