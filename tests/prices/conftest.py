from collections.abc import Callable, Iterator

import pytest

from manilla.prices.price import PlanVersion, TaxRule
from manilla.prices.store import OWN, Prices
from manilla.services import Services
from tests.payments.conftest import production, sandbox, sandbox_shop, shop, simulator
from tests.payouts.conftest import payer, sandbox_payer

__all__ = ["payer", "production", "sandbox", "sandbox_payer", "sandbox_shop", "shop", "simulator"]

UsePrices = Callable[..., None]


@pytest.fixture
def use_prices(services: Services) -> Iterator[UsePrices]:
    """Sets a merchant's exceptions and the tax rules in this process, until the test has ended."""

    def use(merchant_id: int, version: PlanVersion | None, *rules: TaxRule) -> None:
        own = [] if version is None else [_own(version, merchant_id)]
        services.prices.use(Prices(versions=tuple(own), rules=rules))

    yield use
    services.prices.use(Prices())


def _own(version: PlanVersion, merchant_id: int) -> PlanVersion:
    return PlanVersion(
        OWN, version.version, version.starts_at, version.content, merchant_id=merchant_id
    )
