"""The migrations create the schema that the code needs, from every earlier version."""

import asyncio

import asyncpg
import pytest

from manilla.kit import crypto
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from manilla.sql import migrate
from manilla.sql.tables import GROWING, TABLES
from tests.support.command import manilla


@pytest.fixture
async def empty(cluster: Cluster) -> str:
    """The URL with which the owner connects to a new, empty database."""
    superuser = await Database.open(
        cluster.url(postgres.SUPERUSER, "postgres"), size=1, name="tests"
    )
    await superuser.execute("DROP DATABASE IF EXISTS another")
    await superuser.execute(f"CREATE DATABASE another OWNER {postgres.OWNER}")
    await superuser.close()
    return cluster.url(postgres.OWNER, "another")


async def test_several_processes_may_migrate_at_the_same_time(cluster: Cluster, empty: str) -> None:
    environment = {
        "MANILLA_DATABASE_URL": cluster.url(postgres.APPLICATION, "another"),
        "MANILLA_MIGRATION_URL": empty,
        "MANILLA_MASTER_KEY": crypto.generate_key(),
        "MANILLA_BASE_URL": "https://pay.example.com",
    }
    runs = await asyncio.gather(
        *(asyncio.to_thread(manilla, "migrate", **environment) for _ in range(3))
    )
    assert [run.returncode for run in runs] == [0, 0, 0], [run.stderr for run in runs]
    assert await migrate.is_current(environment["MANILLA_DATABASE_URL"])


async def test_migrating_again_changes_nothing(settings: Settings) -> None:
    assert await migrate.is_current(settings.database_url)
    await migrate.upgrade(settings.migration_url, settings.database_url)
    assert await migrate.is_current(settings.database_url)


async def test_a_single_database_role_is_possible_and_restricted(empty: str) -> None:
    await migrate.upgrade(empty, empty)
    db = await Database.open(empty, size=1, name="tests")
    for table in ("posting", "entry", "timeline", "audit"):
        with pytest.raises(Exception, match="append-only"):
            await db.execute(f"DELETE FROM {table}")
    await db.close()


async def test_keys_of_growing_tables_start_with_the_merchant(owner: Database) -> None:
    """Such keys allow moving a merchant to another cell (see the decision record on growth)."""
    keys = await owner.records(
        """
        SELECT t.relname AS table, i.relname AS index, a.attname AS first
          FROM pg_index x
          JOIN pg_class i ON i.oid = x.indexrelid
          JOIN pg_class t ON t.oid = x.indrelid
          JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
         WHERE x.indisunique AND t.relnamespace = 'public'::regnamespace""",
    )
    assert {"wallet", "posting", "entry"} <= {key["table"] for key in keys}
    growing = [key for key in keys if key["table"] in GROWING]
    assert [key["index"] for key in growing if key["first"] != "merchant_id"] == []


async def test_every_table_has_one_row_in_the_list_of_tables(owner: Database) -> None:
    tables = await owner.records(
        """
        SELECT relname FROM pg_class
         WHERE relkind IN ('r', 'p') AND NOT relispartition
           AND relnamespace = 'public'::regnamespace"""
    )
    assert sorted(each["relname"] for each in tables) == sorted(table.name for table in TABLES)


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        *(("NGN", True), ("AZQ", True), ("", False), ("NG", False), ("NGNN", False)),
        *(("ngn", False), ("N1N", False), ("NGN\n", False), ("ÀGN", False), (" NG", False)),
    ],
)
async def test_a_currency_has_three_capital_letters(
    owner: Database, value: str, is_valid: bool
) -> None:
    assert await _is_of_domain(owner, "currency", value) is is_valid


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        *(
            (name, True)
            for name in ("wallet", "in_flight", "bank", "clearing:a_1", "provider_fee:b")
        ),
        *((name, False) for name in ("", "Wallet", "wallet ", "clearing:A", "clearing:a\n")),
    ],
)
async def test_the_name_of_an_account_is_in_lower_case(
    owner: Database, value: str, is_valid: bool
) -> None:
    assert await _is_of_domain(owner, "ledger_account", value) is is_valid


async def _is_of_domain(db: Database, domain: str, value: str) -> bool:
    try:
        await db.value(f"SELECT $1::text::{domain}", value)
    except asyncpg.CheckViolationError:
        return False
    return True
