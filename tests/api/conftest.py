import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from tests.client import Merchant, Site, new_merchant


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)
