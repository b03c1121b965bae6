from collections.abc import AsyncIterator

import pytest

from manilla.beneficiaries.beneficiary import AccountResolver
from tests.payouts.conftest import payer, sandbox_payer, simulator
from tests.payouts.payout_merchant import PayoutMerchant
from tests.payouts.routing.routed import RoutedPayouts

__all__ = ["payer", "sandbox_payer", "simulator"]


@pytest.fixture
async def routed(payer: PayoutMerchant) -> AsyncIterator[RoutedPayouts]:
    """Sends payouts with the automatic method through three rails, which settle only on command."""
    resolver: AccountResolver = payer.services.resolver
    resolver._kept.clear()
    await payer._begin()
    yield await RoutedPayouts(payer).begin()
    resolver._kept.clear()
