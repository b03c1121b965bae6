from collections.abc import AsyncIterator

import pytest

from manilla.services import Services
from tests.margin.trading import Trading
from tests.payments.conftest import production, shop
from tests.payments.shop import Shop
from tests.payouts.conftest import simulator
from tests.payouts.payout_merchant import PayoutMerchant, method

__all__ = ["production", "shop", "simulator"]


@pytest.fixture
async def trading(shop: Shop, services: Services) -> AsyncIterator[Trading]:
    """A production merchant's payments and payouts. Every test ends with the invariants."""
    payer = PayoutMerchant(services, shop.simulator, shop.merchant)
    await payer.fund("100000")
    trading = Trading(shop, payer)
    async with method(services, "a", fee_fixed="50"):
        yield trading
    await trading.count()
    assert await trading.broken_rules() == []
