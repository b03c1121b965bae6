import argon2
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.people import passwords
from tests.conftest import PRODUCTION_HASHER
from tests.people.accounts import Accounts


@pytest.fixture(scope="session")
def accounts(db: Database, keyring: Keyring) -> Accounts:
    return Accounts(db, keyring)


@pytest.fixture
def production_hasher(monkeypatch: pytest.MonkeyPatch) -> argon2.PasswordHasher:
    """Hashes passwords with the production parameters instead of the fastest parameters."""
    monkeypatch.setattr(passwords, "hasher", PRODUCTION_HASHER)
    return PRODUCTION_HASHER
