"""Each migration runs once and in order, and an interrupted run can be repeated."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.posting_kinds import PostingKind
from manilla.settings import Settings
from manilla.sql import migrate, runner
from manilla.sql.runner import MigrationFailed
from tests.support.databases import database
from tests.support.limits import LONG_SECONDS
from tests.support.rows import first_short

BASELINE = "0042"


@pytest.fixture
async def on(cluster: Cluster, settings: Settings) -> Settings:
    return await database(cluster, settings, "runner")


@pytest.fixture
async def owner(on: Settings) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(on.migration_url)
    yield connection
    await connection.close()


async def _versions(owner: Any) -> list[str]:
    return [row[0] for row in await owner.fetch("SELECT version_num FROM alembic_version")]


def test_migrations_are_numbered_without_gaps() -> None:
    first = int(BASELINE)
    assert runner.numbers() == [f"{first + n:04}" for n in range(len(runner.numbers()))]


async def test_a_database_that_an_earlier_version_migrated_is_continued(
    on: Settings, owner: Any
) -> None:
    """Alembic created the version table of this database in earlier releases."""
    await owner.execute(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
        " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    for number in ("0042", "0046", "0057"):
        await runner.run(on.migration_url, last=number)
        assert await _versions(owner) == [number]
        with pytest.raises(migrate.NotMigrated):
            await migrate.check_ready(on.migration_url)
    await migrate.upgrade(on.migration_url, on.database_url)
    assert await _versions(owner) == [migrate.newest_revision()]
    await migrate.check_ready(on.database_url)
    assert await migrate.is_current(on.database_url)


async def test_a_database_without_a_posting_kind_is_not_ready(on: Settings, owner: Any) -> None:
    await migrate.upgrade(on.migration_url, on.database_url)
    await owner.execute("INSERT INTO posting_kind VALUES ('of_a_newer_version', false)")
    await migrate.check_ready(on.database_url)
    await owner.execute("DELETE FROM posting_kind WHERE kind = 'case_debit'")
    with pytest.raises(migrate.NotMigrated):
        await migrate.check_ready(on.database_url)
    await migrate.upgrade(on.migration_url, on.database_url)
    await migrate.check_ready(on.database_url)
    kinds = {row["kind"] for row in await owner.fetch("SELECT kind FROM posting_kind")}
    assert kinds == {*PostingKind, "of_a_newer_version"}


async def test_a_database_that_is_being_migrated_is_not_ready(on: Settings, owner: Any) -> None:
    """A process starts after the migrations have run, and before the privileges are granted."""
    await migrate.upgrade(on.migration_url, on.database_url)
    await owner.execute(
        "REVOKE SELECT ON posting_kind FROM manilla_app; TRUNCATE posting_kind;"
        " UPDATE function_set SET digest = 'of the previous version'"
    )
    with pytest.raises(migrate.NotMigrated):
        await migrate.check_ready(on.database_url)
    await migrate.upgrade(on.migration_url, on.database_url)
    await migrate.check_ready(on.database_url)


async def test_a_database_without_a_stored_function_is_not_ready(on: Settings, owner: Any) -> None:
    """The previous version has the same tables and posting kinds."""
    await migrate.upgrade(on.migration_url, on.database_url)
    await owner.execute(
        "DROP FUNCTION outcomes_apply; UPDATE function_set SET digest = 'of the previous version'"
    )
    with pytest.raises(migrate.NotMigrated):
        await migrate.check_ready(on.database_url)
    await migrate.upgrade(on.migration_url, on.database_url)
    await migrate.check_ready(on.database_url)


async def test_a_changed_limit_of_a_posting_kind_is_migrated(
    on: Settings, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate.upgrade(on.migration_url, on.database_url)
    monkeypatch.setattr(migrate, "_posting_kinds", lambda: [("refund", True), ("tax", False)])
    assert not await migrate.is_current(on.database_url)
    await migrate.upgrade(on.migration_url, on.database_url)
    assert await migrate.is_current(on.database_url)
    found = await owner.fetch(
        "SELECT may_exceed_limit FROM posting_kind WHERE kind IN ('refund', 'tax') ORDER BY kind"
    )
    assert [row[0] for row in found] == [True, False]


async def test_a_migration_that_fails_changes_nothing(on: Settings, owner: Any) -> None:
    await runner.run(on.migration_url, last=BASELINE)
    await owner.execute("CREATE TABLE endpoint_secret ()")  # created after other tables
    exists = r'be migrated: relation "endpoint_secret" already exists'
    with pytest.raises(MigrationFailed, match=exists):
        await migrate.upgrade(on.migration_url, on.database_url)
    assert await _versions(owner) == [BASELINE]
    assert await owner.fetchval("SELECT to_regclass('event_epoch')") is None
    await owner.execute("DROP TABLE endpoint_secret")
    await migrate.upgrade(on.migration_url, on.database_url)
    assert await migrate.is_current(on.database_url)


async def test_a_migration_that_requests_block_is_repeated(on: Settings, owner: Any) -> None:
    """A request holds a lock until the migration has failed once."""
    await runner.run(on.migration_url, last=BASELINE)
    request = await asyncpg.connect(on.migration_url)
    await request.execute("BEGIN; LOCK TABLE merchant IN ACCESS SHARE MODE")
    migrating = asyncio.create_task(runner.run(on.migration_url))
    await _until_blocked(owner, is_blocked=True)
    await _until_blocked(owner, is_blocked=False)
    assert await _versions(owner) != [migrate.newest_revision()]
    await request.execute("ROLLBACK")
    await migrating
    await request.close()
    assert await _versions(owner) == [migrate.newest_revision()]


async def _until_blocked(owner: Any, *, is_blocked: bool) -> None:
    """Waits until a session waits for a lock on the table, or until no session does."""
    waiting = """
        SELECT EXISTS (SELECT FROM pg_locks
                        WHERE relation = 'merchant'::regclass AND NOT granted)"""
    async with asyncio.timeout(LONG_SECONDS):
        while await owner.fetchval(waiting) is not is_blocked:
            await asyncio.sleep(0.01)


@pytest.mark.long
async def test_a_migration_that_stays_blocked_changes_nothing(
    on: Settings, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "TRIES_MAX", 2)
    await runner.run(on.migration_url, last=BASELINE)
    async with owner.transaction():
        await owner.execute("LOCK TABLE merchant IN ACCESS SHARE MODE")
        with pytest.raises(MigrationFailed, match="lock timeout"):
            await runner.run(on.migration_url)
    assert await owner.fetchval("SELECT max(version_num) FROM alembic_version") < "0059"


async def test_a_migration_whose_index_build_failed_is_resumed(on: Settings, owner: Any) -> None:
    """The migration's tables are kept, and only its indexes are built again."""
    await runner.run(on.migration_url, last="0043")
    await owner.execute("CREATE TABLE payout_open ()")
    with pytest.raises(MigrationFailed, match="is not an index"):
        await migrate.upgrade(on.migration_url, on.database_url)
    assert await _versions(owner) == ["0043+"]
    with pytest.raises(migrate.NotMigrated):
        await migrate.check_ready(on.migration_url)
    await owner.execute("DROP TABLE payout_open")
    await migrate.upgrade(on.migration_url, on.database_url)
    assert await migrate.is_current(on.database_url)


@pytest.fixture
def marking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the migrations: the second and last marks two of a table's rows at a time."""
    (tmp_path / "0042_baseline.sql").write_text(
        "CREATE TABLE thing (id int PRIMARY KEY, mark text, batch xid8);"
        "INSERT INTO thing SELECT generate_series(1, 5);"
    )
    (tmp_path / "0043_marks.sql").write_text(
        f"{runner.REPEATED}UPDATE thing SET mark = 'a', batch = pg_current_xact_id()"
        " WHERE id IN (SELECT id FROM thing WHERE mark IS NULL ORDER BY id LIMIT 2);\n"
    )
    monkeypatch.setattr(runner, "FOLDER", tmp_path)


@pytest.mark.usefixtures("marking")
async def test_a_repeated_migration_changes_all_rows_in_separate_transactions(
    on: Settings, owner: Any
) -> None:
    await runner.run(on.migration_url)
    assert await _versions(owner) == ["0043"]
    batches = await owner.fetch("SELECT count(*) FROM thing GROUP BY batch ORDER BY batch")
    assert [each[0] for each in batches] == [2, 2, 1]


@pytest.mark.usefixtures("marking")
async def test_an_interrupted_repeated_migration_continues(on: Settings, owner: Any) -> None:
    """The rows that were changed before the error stay changed."""
    await runner.run(on.migration_url, last=BASELINE)
    await owner.execute("ALTER TABLE thing ADD CONSTRAINT wall CHECK (id < 3 OR mark IS NULL)")
    with pytest.raises(MigrationFailed, match="wall"):
        await runner.run(on.migration_url)
    assert await _versions(owner) == [BASELINE]
    assert await owner.fetchval("SELECT count(*) FROM thing WHERE mark = 'a'") == 2
    await owner.execute("ALTER TABLE thing DROP CONSTRAINT wall")
    await runner.run(on.migration_url)
    assert await _versions(owner) == ["0043"]
    assert await owner.fetchval("SELECT count(DISTINCT batch) FROM thing WHERE mark = 'a'") == 3


@pytest.mark.parametrize("versions", [["9000"], ["0043", "0044"]])
async def test_an_unknown_version_is_refused(on: Settings, owner: Any, versions: list[str]) -> None:
    await owner.execute(runner.VERSION_TABLE)
    await owner.executemany("INSERT INTO alembic_version VALUES ($1)", [(v,) for v in versions])
    with pytest.raises(MigrationFailed, match=f"is at version {', '.join(versions)}, which"):
        await migrate.upgrade(on.migration_url, on.database_url)
    assert await _versions(owner) == versions
    assert await owner.fetchval("SELECT to_regclass('merchant')") is None


@pytest.mark.parametrize("version", first_short(["0001", "0035+", "0041+"]))
async def test_a_database_older_than_the_baseline_is_refused(
    on: Settings, owner: Any, version: str
) -> None:
    await owner.execute(f"{runner.VERSION_TABLE}; INSERT INTO alembic_version VALUES ('{version}')")
    with pytest.raises(MigrationFailed, match=r"is too old .* upgrade to 0\.7\.0 first"):
        await migrate.upgrade(on.migration_url, on.database_url)
    assert await _versions(owner) == [version]
    assert await owner.fetchval("SELECT to_regclass('merchant')") is None


async def test_a_process_does_not_migrate_beside_another(
    on: Settings, owner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await owner.execute(f"SELECT pg_advisory_lock({runner.ADVISORY_LOCK})")
    monkeypatch.setattr(runner, "LOCK_SECONDS_MAX", -1)
    with pytest.raises(MigrationFailed, match="Another process has been migrating"):
        await migrate.upgrade(on.migration_url, on.database_url)
    assert await owner.fetchval("SELECT to_regclass('alembic_version')") is None
