import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from tests.support.client import Merchant, Site, new_merchant


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)
