from collections.abc import AsyncIterator

import pytest

from manilla.settings import Settings
from tests.payments.conftest import production, sandbox, sandbox_shop, shop, simulator
from tests.payments.shop import Shop
from tests.prices.conftest import use_prices
from tests.splits.steps import Splits

__all__ = ["production", "sandbox", "sandbox_shop", "shop", "simulator", "splits", "use_prices"]


@pytest.fixture
async def splits(shop: Shop, settings: Settings) -> AsyncIterator[Splits]:
    """The splits of a production merchant. Every test ends with the ledger's invariants."""
    steps = Splits(shop, settings.migration_url)
    yield steps
    assert await steps.broken_rules() == []
