from collections.abc import AsyncIterator

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.services import Services
from tests.client import Merchant, Site, new_merchant
from tests.payments.shop import Shop
from tests.simulated import World, simulated


@pytest.fixture
async def world(services: Services, site: Site) -> AsyncIterator[World]:
    """All three providers, simulated; their webhooks reach the site."""
    async with simulated(services) as running:
        yield running


@pytest.fixture
async def production(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)


@pytest.fixture
def shop(services: Services, world: World, production: Merchant) -> Shop:
    """A merchant in production whose customers pay through the simulated providers."""
    return Shop(services, world, production)


@pytest.fixture
async def sandbox(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def sandbox_shop(services: Services, world: World, sandbox: Merchant) -> Shop:
    return Shop(services, world, sandbox)
