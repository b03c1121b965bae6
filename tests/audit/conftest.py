import pytest

from manilla.approvals.approvals import Approvals
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from tests.support.client import Merchant, Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    """The three simulated providers, which send their webhooks to the tested site."""
    await simulated_providers.reset()
    return simulated_providers


@pytest.fixture
def approving(db: Database, keyring: Keyring) -> Approvals:
    """Applies changes as in production mode, where some changes need a second administrator."""
    return Approvals(db, keyring, is_production_mode=True)
