import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.services import Services
from tests.payments.shop import Shop
from tests.support.client import Merchant, Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    """The three simulated providers, which send their webhooks to the tested site."""
    await simulated_providers.reset()
    return simulated_providers


@pytest.fixture
async def production(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)


@pytest.fixture
def shop(services: Services, simulator: ProviderSimulator, production: Merchant) -> Shop:
    """A production merchant whose customers pay through the simulated providers."""
    return Shop(services, simulator, production)


@pytest.fixture
async def sandbox(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def sandbox_shop(services: Services, simulator: ProviderSimulator, sandbox: Merchant) -> Shop:
    return Shop(services, simulator, sandbox)
