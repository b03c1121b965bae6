"""Each kind of tampering by the database's owner is found, even if all balances fit."""

import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.environment import Environment
from manilla.proofs import anchors, chain, pack
from manilla.proofs.pack import PackOptions
from manilla.settings import Settings
from manilla.sql import migrate
from tests.proofs.ledger_story import LedgerStory
from tests.support.client import Site, new_merchant

TABLES = ("posting", "entry", "wallet", "payment", "posting_chain", "posting_chain_head", "audit")
APPEND_ONLY = ("posting", "entry", "posting_chain", "posting_chain_head", "audit")

LEDGER_WRITE = (migrate.FOLDER / "functions" / "ledger_write.sql").read_text()

# The posting that credits the first merchant's payment.
PAYMENT = "(SELECT id FROM posting WHERE kind = 'payment' ORDER BY id LIMIT 1)"
REFUND = "(SELECT id FROM posting WHERE kind = 'refund' ORDER BY id LIMIT 1)"
MERCHANT = f"(SELECT merchant_id FROM posting WHERE id = {PAYMENT})"
WALLET = f"merchant_id = {MERCHANT} AND environment = 'production' AND currency = 'NGN'"
# Adds an amount to the wallet's balance and to the balances after all its entries.
FIT = f"""
    UPDATE wallet SET balance_minor = balance_minor + {{minor}} WHERE {WALLET};
    UPDATE entry SET balance_minor = balance_minor + {{minor}}
     WHERE {WALLET} AND account = 'wallet' AND posting_id > {{after}};"""


class Tampering(NamedTuple):
    name: str
    sql: str
    found_by: str
    undo: str = ""  # the statement that restores what is not in a table


TAMPERINGS = (
    Tampering(
        "a changed amount, with fitting balances and a fitting payment",
        f"""
        UPDATE entry SET amount_minor = amount_minor + sign(amount_minor)::bigint * 1000,
                         balance_minor = balance_minor + 1000
         WHERE posting_id = {PAYMENT};
        UPDATE payment SET amount_minor = amount_minor + 1000
         WHERE trx_id = (SELECT trx_id FROM posting WHERE id = {PAYMENT});
        {FIT.format(minor=1000, after=PAYMENT)}""",
        "recomputed_content",
    ),
    Tampering(
        "a removed entry",
        f"DELETE FROM entry WHERE posting_id = {PAYMENT} AND account <> 'wallet'",
        "recomputed_content",
    ),
    Tampering(
        "a pair of entries that was added to a posting",
        f"""
        INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                           amount_minor)
        SELECT {MERCHANT}, {PAYMENT}, line, 'production', 'NGN', 'adjustment', minor
          FROM (VALUES (8, 500), (9, -500)) AS added (line, minor)""",
        "recomputed_content",
    ),
    Tampering(
        "entries without a posting, of a merchant with postings",
        f"""
        INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                           amount_minor)
        SELECT {MERCHANT}, max(id) + 1, line, 'production', 'NGN', 'adjustment', minor
          FROM posting, (VALUES (8, 500), (9, -500)) AS added (line, minor)
         GROUP BY line, minor""",
        "recomputed_orphans",
    ),
    Tampering(
        "entries without a posting, of a merchant without postings",
        """
        INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                           amount_minor)
        SELECT 999999, 1, line, 'production', 'NGN', 'adjustment', minor
          FROM (VALUES (8, 500), (9, -500)) AS added (line, minor)""",
        "recomputed_orphans",
    ),
    Tampering(
        "a changed wallet balance without entries",
        f"UPDATE wallet SET balance_minor = balance_minor + 1 WHERE {WALLET}",
        "recomputed_wallet",
    ),
    Tampering(
        "a changed wallet balance with a new posting that fits",
        f"""
        WITH added AS (
            INSERT INTO posting (merchant_id, environment, currency, kind, trx_id)
            VALUES ({MERCHANT}, 'production', 'NGN', 'adjustment', 'TXNFORGED')
            RETURNING merchant_id, id),
        raised AS (
            UPDATE wallet SET balance_minor = balance_minor + 700 WHERE {WALLET}
            RETURNING balance_minor)
        INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                           amount_minor, balance_minor)
        SELECT merchant_id, id, 1, 'production', 'NGN', 'wallet', 700, balance_minor
          FROM added, raised
         UNION ALL
        SELECT merchant_id, id, 2, 'production', 'NGN', 'adjustment', -700, NULL FROM added""",
        "postings_have_their_transaction",
    ),
    Tampering(
        "a new posting with an old id, with fitting balances",
        f"""
        {FIT.format(minor=700, after=0)}
        INSERT INTO posting (merchant_id, id, environment, currency, kind, trx_id)
        OVERRIDING SYSTEM VALUE
        VALUES ({MERCHANT}, 0, 'production', 'NGN', 'adjustment', 'TXNFORGED');
        INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                           amount_minor, balance_minor)
        VALUES ({MERCHANT}, 0, 1, 'production', 'NGN', 'wallet', 700, 700),
               ({MERCHANT}, 0, 2, 'production', 'NGN', 'adjustment', -700, NULL)""",
        "recomputed_content",
    ),
    Tampering(
        "a removed posting, with fitting balances",
        f"""
        {
            FIT.format(
                minor=f"(SELECT -amount_minor FROM entry WHERE posting_id = {REFUND}"
                " AND account = 'wallet')",
                after=REFUND,
            )
        }
        DELETE FROM entry WHERE posting_id = {REFUND};
        DELETE FROM posting WHERE id = {REFUND}""",
        "recomputed_content",
    ),
    Tampering(
        "postings of two merchants that were swapped",
        """
        CREATE TEMP TABLE swapped AS
        SELECT id, merchant_id, lead(merchant_id) OVER (ORDER BY id) AS next_merchant,
               lag(merchant_id) OVER (ORDER BY id) AS previous_merchant
          FROM posting WHERE kind = 'payment';
        UPDATE posting p SET merchant_id = coalesce(s.next_merchant, s.previous_merchant)
          FROM swapped s WHERE s.id = p.id;
        UPDATE entry e SET merchant_id = coalesce(s.next_merchant, s.previous_merchant)
          FROM swapped s WHERE s.id = e.posting_id;
        DROP TABLE swapped""",
        "recomputed_content",
    ),
    Tampering(
        "a changed time",
        f"UPDATE posting SET posted_at = posted_at - interval '1 day' WHERE id = {PAYMENT}",
        "recomputed_content",
    ),
    Tampering(
        "a changed transaction id",
        f"UPDATE posting SET trx_id = trx_id || 'X' WHERE id = {PAYMENT}",
        "recomputed_content",
    ),
    Tampering(
        "a changed reason",
        "UPDATE posting SET reason = 'Something else' WHERE kind = 'settle_top_up'",
        "recomputed_content",
    ),
    Tampering(
        "a removed link",
        "DELETE FROM posting_chain WHERE number = 2",
        "recomputed_chain",
    ),
    Tampering(
        "a removed last link",
        "DELETE FROM posting_chain WHERE number = (SELECT max(number) FROM posting_chain)",
        "recomputed_chain",
    ),
    Tampering(
        "a changed posting whose link was changed to fit",
        f"""
        UPDATE posting SET posted_at = posted_at - interval '1 day' WHERE id = {PAYMENT};
        UPDATE posting_chain SET content = sha256('x') WHERE number = 1""",
        "recomputed_chain",
    ),
    Tampering(
        "a changed stored function",
        LEDGER_WRITE.replace("+ moved.minor", "+ moved.minor + 1"),
        "schema_is_of_this_version",
        LEDGER_WRITE,
    ),
    Tampering(
        "a row filter that hides postings",
        """
        CREATE POLICY hide ON posting USING (kind <> 'refund');
        ALTER TABLE posting ENABLE ROW LEVEL SECURITY""",
        "recomputed_tables",
        "DROP POLICY hide ON posting; ALTER TABLE posting DISABLE ROW LEVEL SECURITY",
    ),
    Tampering(
        "a changed audit entry",
        "UPDATE audit SET actor_name = 'somebody else' WHERE id = 1",
        "audit_log_is_whole",
    ),
)


@pytest.fixture(scope="module")
async def stories(site: Site, db: Database, keyring: Keyring, story: LedgerStory) -> LedgerStory:
    """Two production merchants with the same transactions."""
    second = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    await story.of(second).happen()
    return story


async def _broken(settings: Settings, *expected: str) -> list[str]:
    found = await pack.collect(settings.database_url, PackOptions(expected=expected))
    return [check.name for check in found.checks if check.count]


@contextlib.asynccontextmanager
async def tampered(owner: Database, tampering: Tampering) -> AsyncIterator[None]:
    """Tampers with the database as its owner, and restores it at the end of the `with` block."""
    async with owner.connection() as connection:
        for table in TABLES:
            await connection.execute(f"CREATE TEMP TABLE kept_{table} AS TABLE {table}")
        await _rewrite(connection, tampering.sql)
        try:
            yield
        finally:
            restored = "; ".join(
                f"DELETE FROM {table};"
                f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE kept_{table};"
                f"DROP TABLE kept_{table}"
                for table in TABLES
            )
            await _rewrite(connection, f"{tampering.undo or 'SELECT'}; {restored}")


async def _rewrite(connection: Connection, sql: str) -> None:
    async with connection.transaction():
        for table in APPEND_ONLY:
            await connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await connection.execute(sql)
        for table in APPEND_ONLY:
            await connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


async def test_nothing_is_found_without_tampering(
    settings: Settings, owner: Database, stories: LedgerStory
) -> None:
    assert await _broken(settings) == []
    async with tampered(owner, Tampering("nothing", "SELECT", "")):
        assert await _broken(settings) == []
    assert await _broken(settings) == []


@pytest.mark.long
@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda each: each.name)
async def test_tampering_is_found(
    settings: Settings, owner: Database, stories: LedgerStory, tampering: Tampering
) -> None:
    async with tampered(owner, tampering):
        assert tampering.found_by in await _broken(settings)


async def test_fitting_balances_hide_a_changed_amount_from_every_other_check(
    settings: Settings, owner: Database, stories: LedgerStory
) -> None:
    """Without the chain, nobody would notice the first kind of tampering."""
    async with tampered(owner, TAMPERINGS[0]):
        assert await _broken(settings) == ["recomputed_content"]


async def test_a_rewritten_chain_is_found_with_an_anchored_head(
    settings: Settings, owner: Database, db: Database, stories: LedgerStory
) -> None:
    anchored = (await anchors.heads(db)).chain_head
    rewritten = f"""
        {TAMPERINGS[0].sql};
        DELETE FROM posting_chain;
        UPDATE posting_chain_head
           SET number = 0, last_id = 0, hash = decode(repeat('00', 32), 'hex')"""
    async with tampered(owner, Tampering("a rewritten chain", rewritten, "")):
        await chain.extend(db)
        assert await _broken(settings) == []
        assert await _broken(settings, anchored) == ["recomputed_anchor"]


async def test_the_worker_does_not_hide_a_removed_last_link(
    settings: Settings, owner: Database, db: Database, stories: LedgerStory
) -> None:
    """The worker continues from the head, so the removed link stays missing."""
    last = "(SELECT max(number) FROM posting_chain)"
    removed = Tampering("", f"DELETE FROM posting_chain WHERE number = {last}", "")
    async with tampered(owner, removed):
        await chain.extend(db)
        assert "recomputed_chain" in await _broken(settings)


async def test_a_forged_arrival_is_found(
    settings: Settings, owner: Database, db: Database, stories: LedgerStory
) -> None:
    """A link of arrived postings would excuse an adjustment that has no audit entry."""
    forged = next(each for each in TAMPERINGS if each.found_by == "postings_have_their_transaction")
    await chain.extend(db)
    async with tampered(owner, forged):
        async with owner.transaction() as connection:
            row = await connection.record(
                "SELECT merchant_id, id FROM posting WHERE trx_id = 'TXNFORGED'"
            )
            ranges = await chain.digest_arrival(connection, row["merchant_id"], row["id"] - 1)
            await chain.add_arrival(connection, row["merchant_id"], ranges)
        assert await _broken(settings) == ["arrivals_are_in_the_audit_log"]
