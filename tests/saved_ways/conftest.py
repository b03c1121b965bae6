from collections.abc import AsyncIterator

import pytest

from manilla.services import Services
from tests.payments.conftest import production, sandbox
from tests.payments.shop import Shop
from tests.saved_ways.steps import Lender
from tests.support.client import Merchant, Site
from tests.support.provider_simulator import ProviderSimulator, running_simulator

__all__ = ["production", "sandbox"]
RAILS = ("paystack", "flutterwave", "monnify")


@pytest.fixture(scope="module")
async def providers(services: Services, site: Site) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, RAILS) as running:
        yield running


@pytest.fixture
async def lender(
    services: Services, providers: ProviderSimulator, production: Merchant
) -> AsyncIterator[Lender]:
    """A production merchant that charges saved cards. Ends with the ledger's invariants."""
    await providers.reset()
    steps = Lender(Shop(services, providers, production))
    yield steps
    assert await steps.broken_rules() == []


@pytest.fixture
async def tester(
    services: Services, providers: ProviderSimulator, sandbox: Merchant
) -> AsyncIterator[Lender]:
    """A merchant that uses the sandbox."""
    await providers.reset()
    steps = Lender(Shop(services, providers, sandbox))
    yield steps
    assert await steps.broken_rules() == []
