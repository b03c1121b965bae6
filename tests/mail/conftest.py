from collections.abc import AsyncIterator

import pytest

from manilla.job_kinds import JobKind
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from tests.mail.mail_server import MailServer, mail_server
from tests.people.accounts import Accounts, Owner


@pytest.fixture
async def server(db: Database) -> AsyncIterator[MailServer]:
    """A mail server. The outbox contains no emails of earlier tests."""
    kinds = [JobKind.MAIL, JobKind.RECEIPT_MAIL, JobKind.RESET]
    await db.execute("UPDATE job SET due_at = 'infinity' WHERE kind = ANY($1)", kinds)
    async with mail_server() as running:
        yield running


@pytest.fixture(scope="session")
def accounts(db: Database, keyring: Keyring) -> Accounts:
    return Accounts(db, keyring)


@pytest.fixture
async def owner(accounts: Accounts) -> Owner:
    return await accounts.owner()
