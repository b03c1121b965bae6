import pytest

from manilla.kit.db import Database
from tests.reconciliation.ledger_samples import Account


@pytest.fixture
def account(db: Database, owner: Database) -> Account:
    return Account(db, owner)
