"""The heads of both hash chains leave the database once per day by email."""

import asyncio

import msgspec

from manilla import worker
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.people.roles import ConsoleRole
from manilla.proofs import anchors, chain
from manilla.services import Services
from tests.ledger.test_postings import open_wallets
from tests.mail.outbox_reader import letters_to
from tests.people.accounts import Accounts


async def test_administrators_get_the_heads_once_per_day(
    services: Services, db: Database, keyring: Keyring
) -> None:
    accounts = Accounts(db, keyring)
    _, administrator = await accounts.administrator()
    _, operator = await accounts.administrator(ConsoleRole.OPERATIONS)
    await open_wallets(db, 4_000_001, 1_000_000)
    await chain.extend(db)
    heads = await anchors.heads(db)
    await asyncio.gather(*(anchors.mail_heads(db) for _ in range(3)))
    [letter] = await letters_to(db, services.letters, administrator)
    assert heads.chain_head in letter.text
    assert heads.audit_head in letter.text
    assert await letters_to(db, services.letters, operator) == []
    await db.execute("UPDATE posting_chain_head SET mailed_on = mailed_on - 1")
    await anchors.mail_heads(db)
    assert len(await letters_to(db, services.letters, administrator)) == 2


async def test_an_empty_chain_is_not_mailed(db: Database, owner: Database) -> None:
    kept = await db.record("SELECT number, mailed_on FROM posting_chain_head")
    await owner.execute("UPDATE posting_chain_head SET number = 0, mailed_on = NULL")
    await anchors.mail_heads(db)
    assert await db.value("SELECT mailed_on FROM posting_chain_head") is None
    sql = "UPDATE posting_chain_head SET number = $1, mailed_on = $2"
    await owner.execute(sql, kept["number"], kept["mailed_on"])


def test_only_installations_in_production_mode_mail_the_heads(services: Services) -> None:
    def tasks(*, is_development: bool) -> set[str]:
        running = msgspec.structs.replace(services, is_development=is_development)
        return {task.name for task in worker.periodic_tasks(running)}

    assert tasks(is_development=False) - tasks(is_development=True) >= {"mail_heads"}
