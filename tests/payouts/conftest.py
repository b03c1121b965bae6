import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.services import Services
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.client import Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    """The three simulated providers, with sufficient balances.

    The providers send their webhooks to the tested site.
    """
    await simulated_providers.reset()
    for provider in "abc":
        await simulated_providers.control(f"{provider}/balance", {"available": 100_000_000})
    return simulated_providers


@pytest.fixture
async def payer(
    services: Services, simulator: ProviderSimulator, site: Site, db: Database, keyring: Keyring
) -> PayoutMerchant:
    """A production merchant with 10,000.00 in its wallet."""
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    payer = PayoutMerchant(services, simulator, merchant)
    await payer.fund("10000")
    return payer


@pytest.fixture
async def sandbox_payer(
    services: Services, simulator: ProviderSimulator, site: Site, db: Database, keyring: Keyring
) -> PayoutMerchant:
    return PayoutMerchant(services, simulator, await new_merchant(site, db, keyring))
