"""Migrations do not block writes, and do not remove objects that the running version uses."""

import re
from pathlib import Path

import asyncpg
import pytest

from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.settings import Settings
from manilla.sql import migrate, runner
from tests.databases import database
from tests.sql.test_schema import SMALL

# Migrations that remove objects, with the reason why the previous version does not need them.
CONTRACTIONS: dict[str, str] = {
    "0043_events": "replaces a check by one that allows more values",
    "0047_write_costs": "replaces checks by cheaper ones that allow the same values",
    "0057_wrong_amounts": "replaces checks by ones that allow more values",
    "0068_fan_out_by_statement": "replaces a trigger by one that does the same for many rows",
}

REMOVALS = {
    r"\bDROP\b(?! INDEX CONCURRENTLY)": "removes something that the running version may use",
    r"\bRENAME\b": "renames something that the running version may use",
    r"\bALTER (COLUMN )?\w+ (SET DATA )?TYPE\b": "changes a column's type",
    r"\bSET NOT NULL\b": "refuses what the running version may write",
    r"\bADD( COLUMN)?(?! CONSTRAINT) \w+ (?:(?!DEFAULT)[^,;])*\bNOT NULL(?![^,;]*DEFAULT)": (
        "adds a column that the running version does not fill"
    ),
}
INDEX = re.compile(r"\bCREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)\w+\s+ON (\w+)", re.IGNORECASE)
CONSTRAINT = re.compile(
    r"\bALTER TABLE (\w+)((?:(?!;).)*?\bADD (?:CONSTRAINT|CHECK|FOREIGN KEY|UNIQUE|PRIMARY KEY)\b"
    r"(?:(?!;).)*)",
    re.IGNORECASE | re.DOTALL,
)
CREATED = re.compile(r"\bCREATE (?:UNLOGGED )?TABLE (\w+)", re.IGNORECASE)


def problems(sql: str) -> list[str]:
    sql = re.sub(r"--[^\n]*", "", sql)
    without = set(CREATED.findall(sql)) | SMALL
    found = [why for rule, why in REMOVALS.items() if re.search(rule, sql, re.IGNORECASE)]
    found += [
        f"builds an index on {table} in a transaction: use CREATE INDEX CONCURRENTLY"
        for table in INDEX.findall(sql)
        if table not in without
    ]
    found += [
        f"adds a constraint to {table} that is not NOT VALID"
        for table, definition in CONSTRAINT.findall(sql)
        if table not in without and not re.search("NOT VALID|USING INDEX", definition)
    ]
    return found


MIGRATIONS = sorted(runner.FOLDER.glob("[0-9]*_*.sql"))


@pytest.mark.parametrize("file", MIGRATIONS, ids=lambda file: file.stem)
def test_a_migration_leaves_the_running_version_alone(file: Path) -> None:
    if file.stem not in CONTRACTIONS:
        assert problems(file.read_text()) == []


def test_functions_are_never_dropped() -> None:
    """Processes that still run the previous version call the functions until they are restarted."""
    for file in (migrate.FOLDER / "functions").glob("*.sql"):
        assert "DROP" not in re.sub(r"--[^\n]*", "", file.read_text()).upper(), file.name


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE INDEX payment_age ON payment (created_at);",
        "ALTER TABLE payment ADD CONSTRAINT positive CHECK (amount_minor > 0);",
        "ALTER TABLE payment ADD COLUMN a text, ADD CHECK (amount_minor > 0);",
        "DROP FUNCTION payout_initiate(jsonb, interval);",
        "ALTER TABLE setting DROP COLUMN value;",
        "ALTER TABLE setting RENAME COLUMN value TO text;",
        "ALTER TABLE payment ALTER COLUMN remarks TYPE varchar;",
        "ALTER TABLE payment ALTER remarks SET NOT NULL;",
        "ALTER TABLE payment ADD COLUMN mark text NOT NULL;",
    ],
)
def test_a_migration_that_would_break_the_running_version_is_detected(sql: str) -> None:
    assert len(problems(sql)) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE thing (merchant_id bigint NOT NULL); CREATE INDEX of_it ON thing (id);",
        "CREATE INDEX method_name ON method (name);",
        "ALTER TABLE payment ADD CONSTRAINT positive CHECK (amount_minor > 0) NOT VALID;",
        "ALTER TABLE payment ADD COLUMN mark text NOT NULL DEFAULT '', ADD other text;",
    ],
)
def test_a_migration_that_the_running_version_tolerates_is_allowed(sql: str) -> None:
    assert problems(sql) == []


async def test_an_index_left_invalid_by_a_crash_is_rebuilt(
    cluster: Cluster, settings: Settings
) -> None:
    on = await database(cluster, settings, "half_migrated")
    await runner.run(on.migration_url, last="0043")
    owner = await asyncpg.connect(on.migration_url)
    try:
        await owner.execute("CREATE INDEX refund_reference ON refund (merchant_id)")
        await _invalidate(cluster, "half_migrated", "refund_reference")
        await migrate.upgrade(on.migration_url, on.database_url)
        [index] = await owner.fetch(
            """
            SELECT indisvalid, indisunique, indnatts FROM pg_index
             WHERE indexrelid = 'refund_reference'::regclass"""
        )
        assert tuple(index) == (True, True, 3)
    finally:
        await owner.close()


async def _invalidate(cluster: Cluster, name: str, index: str) -> None:
    """Marks an index as invalid, as an interrupted concurrent build does."""
    superuser = await asyncpg.connect(cluster.url("postgres", name))
    try:
        await superuser.execute(
            f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{index}'::regclass"
        )
    finally:
        await superuser.close()


async def test_the_running_version_writes_notifications_before_rights_are_granted(
    cluster: Cluster, settings: Settings
) -> None:
    """During a migration, the application's role has no privileges on the trigger's tables."""
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER))
    change = connection.transaction()
    await change.start()
    try:
        await connection.execute(
            "CREATE ROLE running_version; GRANT USAGE ON SCHEMA public TO running_version;"
            "GRANT INSERT ON notification TO running_version; SET ROLE running_version"
        )
        written = await connection.execute(
            "INSERT INTO notification (merchant_id, id, environment, trx_id, event, status, url,"
            " body) VALUES (1, 'msg_1', 'sandbox', 'TXN1', 'payment', 'completed', '', '{}')"
        )
        assert written == "INSERT 0 1"
    finally:
        await change.rollback()
        await connection.close()
