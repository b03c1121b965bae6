import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from tests.people.accounts import Accounts


@pytest.fixture(scope="session")
def accounts(db: Database, keyring: Keyring) -> Accounts:
    return Accounts(db, keyring)
