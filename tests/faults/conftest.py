"""Simulates all provider kinds. The simulator starts once per module, and each test resets it."""

from collections.abc import AsyncIterator

import pytest

from manilla.services import Services
from tests.payments.shop import Shop
from tests.payouts.conftest import payer, sandbox_payer
from tests.payouts.payout_merchant import PayoutMerchant
from tests.support import kinds
from tests.support.client import Site
from tests.support.provider_simulator import ProviderSimulator, running_simulator

__all__ = ["payer", "sandbox_payer"]


@pytest.fixture(scope="module")
async def simulated_kinds(services: Services, site: Site) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, kinds.ALL) as running:
        yield running


@pytest.fixture
async def simulator(simulated_kinds: ProviderSimulator) -> ProviderSimulator:
    await simulated_kinds.reset()
    return simulated_kinds


@pytest.fixture
def shop(payer: PayoutMerchant) -> Shop:
    """The merchant of the fixture `payer`, as a shop whose customers pay."""
    return Shop(payer.services, payer.simulator, payer.merchant)
