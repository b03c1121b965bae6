import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants import merchants


@pytest.fixture
async def merchant_id(db: Database, keyring: Keyring) -> int:
    new = await merchants.create(db, keyring, name="Ledger Tests", email="l@example.com")
    return new.id
