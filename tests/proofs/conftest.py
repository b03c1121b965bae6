import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.services import Services
from tests.proofs.ledger_story import LedgerStory
from tests.support.client import Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture(scope="module")
async def story(
    services: Services,
    simulated_providers: ProviderSimulator,
    site: Site,
    db: Database,
    keyring: Keyring,
) -> LedgerStory:
    """A production merchant with a payment, a payout, a failed payout and a refund."""
    await simulated_providers.reset()
    await simulated_providers.control("a/balance", {"available": 100_000_000})
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    story = LedgerStory(services, simulated_providers, merchant)
    await story.happen()
    return story
