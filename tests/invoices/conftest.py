import itertools
import secrets
import string
from collections.abc import AsyncIterator

import pytest

from manilla.kit.database.connections import Database
from manilla.services import Services
from tests.invoices.books import Books
from tests.payments.conftest import production, shop, simulator
from tests.support.client import Merchant

__all__ = ["books", "production", "shop", "simulator"]

# Each test has months of its own, because tests share the database.
_months = itertools.count(1)


@pytest.fixture
async def books(services: Services, owner: Database, production: Merchant) -> AsyncIterator[Books]:
    """The books of a merchant and of an operator that issues invoices."""
    number = next(_months)
    month = f"20{10 + number // 6:02d}-{1 + 2 * (number % 6):02d}"
    prefix = "".join(secrets.choice(string.ascii_uppercase) for _ in range(10))
    used = Books(services, owner, production, month, prefix)
    yield used
    assert await used.broken_rules() == []
