from collections.abc import AsyncIterator

import pytest

from tests.disputes.steps import Disputes
from tests.payments.conftest import production, sandbox, sandbox_shop, shop, simulator
from tests.payments.shop import Shop

__all__ = ["disputes", "production", "sandbox", "sandbox_shop", "shop", "simulator"]


@pytest.fixture
async def disputes(shop: Shop) -> AsyncIterator[Disputes]:
    """The disputes of a production merchant. Every test ends with the ledger's invariants."""
    steps = Disputes(shop)
    yield steps
    assert await steps.broken_rules() == []
