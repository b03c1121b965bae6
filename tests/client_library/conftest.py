from collections.abc import AsyncIterator

import pytest
from manilla_client import AsyncClient, Credentials

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from tests.support.client import Merchant, Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    """The simulated providers, which the payout methods need. Can also run the worker's jobs."""
    await simulated_providers.reset()
    return simulated_providers


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
async def client(site: Site, merchant: Merchant) -> AsyncIterator[AsyncClient]:
    url = f"http://127.0.0.1:{site.port}"
    async with AsyncClient(url, credentials_of(merchant)) as client:
        yield client


def credentials_of(merchant: Merchant) -> Credentials:
    own = merchant.credentials
    return Credentials(own.merchant_key, own.api_key, own.api_secret)
