import pytest

from manilla.kit import strict_json
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.reference.pages import Documentation
from tests.client import Merchant, Site, new_merchant


@pytest.fixture(scope="session")
async def documentation(site: Site) -> Documentation:
    """The API documentation that the running site serves."""
    reply = await site.send("GET", "/api/openapi.json")
    return Documentation(strict_json.decode(reply.body), is_development=True)


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    """An approved merchant that calls the API in the sandbox."""
    return await new_merchant(site, db, keyring)
