from collections.abc import AsyncIterator

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.services import Services
from tests.client import Site, new_merchant
from tests.payouts.desk import Desk
from tests.simulated import World, simulated


@pytest.fixture
async def world(services: Services, site: Site) -> AsyncIterator[World]:
    """All three providers, simulated, with enough money; their webhooks reach the site."""
    async with simulated(services) as running:
        for provider in "abc":
            await running.control(f"{provider}/balance", {"available": 100_000_000})
        yield running


@pytest.fixture
async def desk(
    services: Services, world: World, site: Site, db: Database, keyring: Keyring
) -> Desk:
    """A merchant in production with 10,000.00 in its wallet."""
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    desk = Desk(services, world, merchant)
    await desk.fund("10000")
    return desk


@pytest.fixture
async def sandbox_desk(
    services: Services, world: World, site: Site, db: Database, keyring: Keyring
) -> Desk:
    return Desk(services, world, await new_merchant(site, db, keyring))
