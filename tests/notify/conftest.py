from collections.abc import AsyncIterator

import pytest

from manilla.kit import outbound
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.notify import delivery
from manilla.notify.delivery import NotificationDelivery
from manilla.services import Services
from manilla.settings import Settings
from tests.client import Site, new_merchant
from tests.notify.deliveries import Deliveries
from tests.notify.receiver import Receiver, receiving


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
    """A sandbox merchant, its notification receiver, and a delivery worker that the test runs."""
    merchant = await new_merchant(site, db, keyring)
    async with outbound.open_session(
        is_public_only=False, connections=64, seconds=delivery.ATTEMPT_SECONDS
    ) as session:
        yield Deliveries(
            services,
            merchant,
            receiver,
            NotificationDelivery(db, services.directory, session),
            settings.migration_url,
        )
