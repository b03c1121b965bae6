from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.services import Services
from tests.client_library.php import php, skip_without_php
from tests.support.client import Merchant, Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator
from tests.woocommerce.shop import WooShop, running_shop


@pytest.fixture
async def simulator(simulated_providers: ProviderSimulator) -> ProviderSimulator:
    await simulated_providers.reset()
    return simulated_providers


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
async def shop(
    services: Services, simulator: ProviderSimulator, merchant: Merchant, tmp_path: Path
) -> AsyncIterator[WooShop]:
    skip_without_php()
    if "pdo_sqlite" not in php("-m").stdout:
        pytest.skip("PHP has no SQLite extension; Debian's package is php-sqlite3")
    async with running_shop(services, simulator, merchant, tmp_path) as shop:
        yield shop
