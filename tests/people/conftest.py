import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from tests.people.street import Street


@pytest.fixture(scope="session")
def street(db: Database, keyring: Keyring) -> Street:
    return Street(db, keyring)
