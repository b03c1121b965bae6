import pytest

from manilla.kit import strict_json
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.reference.pages import Documentation
from tests.support.client import Merchant, Site, new_merchant


@pytest.fixture(scope="session")
async def documentation(site: Site) -> Documentation:
    reply = await site.send("GET", "/api/openapi.json")
    return Documentation(strict_json.decode(reply.body), is_development=True)


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)
