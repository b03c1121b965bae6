from collections.abc import AsyncIterator

import pytest

from manilla.kit import changes
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.services import Services
from manilla.settings import Settings
from tests.notify.deliveries import Deliveries, delivery_worker
from tests.notify.endpoint_merchant import EndpointMerchant, endpoint_worker
from tests.notify.receiver import Receiver, receiving
from tests.support.client import Site, new_merchant


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as running:
        yield running


@pytest.fixture
async def deliveries(
    services: Services,
    site: Site,
    db: Database,
    keyring: Keyring,
    receiver: Receiver,
    settings: Settings,
) -> AsyncIterator[Deliveries]:
    """A sandbox merchant, its notification receiver, and a delivery worker that a test runs."""
    merchant = await new_merchant(site, db, keyring)
    async with delivery_worker(services) as delivery:
        yield Deliveries(services, merchant, receiver, delivery, settings.migration_url)


@pytest.fixture
async def shop(
    services: Services, deliveries: Deliveries, owner: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[EndpointMerchant]:
    """The merchant of `deliveries`, with a worker for its webhook endpoints.

    No other process runs, so creating an endpoint does not wait for the caches of other processes.
    """
    monkeypatch.setattr(changes, "KNOWN_AFTER_SECONDS", 0)
    async with endpoint_worker(services) as delivery:
        yield EndpointMerchant(services, deliveries, delivery, owner)
