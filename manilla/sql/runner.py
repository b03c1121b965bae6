"""Runs the migrations that a database does not have yet, in one process at a time.

A migration is a numbered SQL file. Its statements run in one transaction, which also saves the
migration's number, up to the first `CREATE INDEX CONCURRENTLY` or `DROP INDEX CONCURRENTLY`. From
there on, each statement runs in a separate transaction, so that building an index does not block
writes.

A statement that changes many rows of a large table is a migration of its own, which begins with
the line in `REPEATED`. The statement changes a limited number of rows, and runs again, each time in
a separate transaction, until it changes no row.

The first file is the baseline, which creates the tables of a new database. A database that is older
than the baseline is rejected.
"""

import asyncio
import re
import time
from importlib import resources
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from manilla.kit.database.connections import session
from manilla.kit.errors import Refusal

FOLDER = Path(str(resources.files("manilla.sql"))) / "migrations"

ADVISORY_LOCK = 0x4D414E494C4C41  # "MANILLA" in ASCII
LOCK_POLL_SECONDS = 0.2
LOCK_SECONDS_MAX = 600
# These errors mean that requests block a migration. It is rolled back and repeated.
BLOCKED = (asyncpg.DeadlockDetectedError, asyncpg.LockNotAvailableError)
TRIES_MAX = 10
TRY_PAUSE_SECONDS = 1
BUSY = (
    "Another process has been migrating this database for 10 minutes. Nothing was changed. "
    "Run `manilla migrate` again when that process has ended."
)
UNKNOWN = (
    "The database is at version {version}, which this version of Manilla does not know. "
    "Run `manilla migrate` from the version that migrated it."
)
TOO_OLD = (
    "The database is at version {version}, which is too old for this version of Manilla. Nothing "
    "was changed: upgrade to 0.7.0 first, then to this version."
)

# Alembic, another migration tool, ran the migrations of earlier releases.
# Alembic's version table is still used, because processes that run the old version read it.
VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS alembic_version (
    version_num varchar(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"""

REPEATED = "-- Repeated until no row changes.\n"
CONCURRENT = re.compile(r"^(?=(?:CREATE (?:UNIQUE )?|DROP )INDEX CONCURRENTLY\b)", re.MULTILINE)
NEW_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX CONCURRENTLY (\w+)")


class MigrationFailed(Refusal):
    message = "The database could not be migrated."


class Migration(msgspec.Struct, frozen=True):
    number: str
    script: str
    concurrent: list[str]  # SQL statements that cannot run in a transaction

    @property
    def is_repeated(self) -> bool:
        return self.script.startswith(REPEATED)

    @property
    def half(self) -> str:
        """The database's version after the script has run, but before the concurrent statements.

        This version sorts after the previous migration's number and before this migration's number.
        """
        return f"{int(self.number) - 1:04}+"


def numbers() -> list[str]:
    """Returns the numbers of all migrations, oldest first."""
    return sorted(file.name[:4] for file in FOLDER.glob("[0-9]*_*.sql"))


def read(file: Path) -> Migration:
    script, *concurrent = CONCURRENT.split(file.read_text())
    return Migration(file.name[:4], script, concurrent)


async def run(owner_url: str, *, last: str = "9999") -> None:
    """Runs the missing migrations up to number `last`."""
    migrations = [read(file) for file in sorted(FOLDER.glob("[0-9]*_*.sql"))]
    async with session(owner_url, statement_seconds=None) as connection:
        await _lock(connection)
        # A migration that cannot lock its table within 3 s is repeated a second later.
        # During a longer wait, every request would queue behind the migration.
        await connection.execute("SET lock_timeout = '3s'")
        try:
            version = await _version(connection, migrations)
            for migration in migrations:
                if version < migration.number <= last:
                    await _apply(connection, migration, version)
        except asyncpg.PostgresError as error:
            raise MigrationFailed(f"The database could not be migrated: {error}") from error


async def _lock(connection: Any) -> None:
    """Takes the lock. If two processes start together, the second waits until the first has ended.

    The process polls, because a statement that waits for the lock keeps a snapshot open. If the
    first process builds an index concurrently, it would wait for that snapshot, which is a
    deadlock.
    """
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while not await connection.fetchval(f"SELECT pg_try_advisory_lock({ADVISORY_LOCK})"):
        if time.monotonic() > deadline:
            raise MigrationFailed(BUSY)
        await asyncio.sleep(LOCK_POLL_SECONDS)


async def _version(connection: Any, migrations: list[Migration]) -> str:
    """Returns the database's version, or an empty string if no migration has run."""
    await connection.execute(VERSION_TABLE)
    rows = await connection.fetch("SELECT version_num FROM alembic_version")
    version = ", ".join(row["version_num"] for row in rows)
    baseline, *later = migrations
    known = {each.number for each in migrations} | {each.half for each in later}
    if version and version < baseline.number:
        raise MigrationFailed(TOO_OLD.format(version=version))
    if version and version not in known:
        raise MigrationFailed(UNKNOWN.format(version=version))
    return version


async def _apply(connection: Any, migration: Migration, version: str) -> None:
    if migration.is_repeated:
        while not (await _until_not_blocked(connection, migration.script)).endswith(" 0"):
            pass
        await connection.execute(_save(migration.number))
    elif version < migration.half:
        reached = migration.half if migration.concurrent else migration.number
        # If SQL statements are sent together, PostgreSQL runs them in one transaction.
        await _until_not_blocked(connection, f"{migration.script}\n; {_save(reached)}")
    if migration.concurrent:
        # Building an index concurrently waits for all older transactions, however long they take.
        # No other SQL statement waits for the index.
        await connection.execute("SET lock_timeout = 0")
        for statement in migration.concurrent:
            if index := NEW_INDEX.match(statement):
                # An interrupted index build leaves an invalid index, which must be dropped.
                await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {index[1]}")
            await connection.execute(statement)
        await connection.execute(f"SET lock_timeout = '3s'; {_save(migration.number)}")


async def _until_not_blocked(connection: Any, script: str) -> str:
    """Runs the script, and returns the status of its last statement, such as `UPDATE 3`."""
    for _ in range(TRIES_MAX - 1):
        try:
            return str(await connection.execute(script))
        except BLOCKED:
            await asyncio.sleep(TRY_PAUSE_SECONDS)
    return str(await connection.execute(script))


def _save(version: str) -> str:
    return f"DELETE FROM alembic_version; INSERT INTO alembic_version VALUES ('{version}')"
