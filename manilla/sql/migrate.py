"""Migrates a database to this version of the code: tables, functions, grants and statistics."""

import hashlib
import re
from importlib import resources
from pathlib import Path
from typing import Any

from manilla.kit import time_limits
from manilla.kit.database.connections import session
from manilla.kit.database.unavailable import raise_unavailable
from manilla.kit.errors import Refusal
from manilla.posting_kinds import PostingFlag, PostingKind, kinds_with
from manilla.sql import archive, epochs, rights, runner, statistics

FOLDER = Path(str(resources.files("manilla.sql")))
_FUNCTION_NAME = re.compile(r"CREATE OR REPLACE FUNCTION (\w+)")

# SQL timeout that is long enough to wait for another process that replaces the functions.
FUNCTIONS_SECONDS = 600


class NotMigrated(Refusal):
    message = "The database schema is out of date: run `manilla migrate` first."


def _start_seconds() -> float:
    return time_limits.current.start_statement_seconds


def newest_revision() -> str:
    return runner.numbers()[-1]


async def upgrade(owner_url: str, application_url: str) -> None:
    """Migrates the database. Safe to call concurrently, and when the database is up to date."""
    with raise_unavailable():
        role = await _role_of(application_url)
        await runner.run(owner_url)
        async with (
            session(owner_url, statement_seconds=FUNCTIONS_SECONDS) as connection,
            connection.transaction(),
        ):
            await _store_posting_kinds(connection)
            await _replace_functions(connection, role)
            await connection.execute(epochs.BEGIN_AFTER_RESTORE)
            await connection.execute(epochs.BEGIN_DESTINATIONS)
            await statistics.seed(connection)


async def check_ready(url: str) -> None:
    """Raises NotMigrated if the database is too old for this version.

    It also raises it if a posting kind or a stored function is missing. Accepts newer databases.
    Consecutive versions can run at the same time, so that an upgrade needs no downtime.
    """
    async with session(url, statement_seconds=_start_seconds()) as connection:
        revision = None
        if await connection.fetchval("SELECT to_regclass('alembic_version')") is not None:
            revision = await connection.fetchval("SELECT version_num FROM alembic_version")
        if revision is None or revision < newest_revision():
            raise NotMigrated
        if not await _has_posting_kinds(connection) or not await _has_functions(connection):
            raise NotMigrated


async def is_current(url: str) -> bool:
    """Whether the database's tables, functions, kinds and grants match this version's code."""
    async with session(url, statement_seconds=_start_seconds()) as connection:
        if await connection.fetchval("SELECT to_regclass('alembic_version')") is None:
            return False
        revision = await connection.fetchval("SELECT version_num FROM alembic_version")
        role = await connection.fetchval("SELECT quote_ident(current_user)")
        digest = await connection.fetchval("SELECT digest FROM function_set")
        return bool(revision == newest_revision() and digest == _digest(role))


async def _has_posting_kinds(connection: Any) -> bool:
    # `upgrade` adds the kinds and the role's privileges after the migrations, in one transaction.
    if not await connection.fetchval("SELECT has_table_privilege('posting_kind', 'SELECT')"):
        return False
    stored = await connection.fetch("SELECT kind FROM posting_kind")
    return {row["kind"] for row in stored} >= set(PostingKind)


async def _has_functions(connection: Any) -> bool:
    stored = await connection.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
    )
    # A newer version may have dropped functions that only our previous version calls.
    needed = set(_FUNCTION_NAME.findall("".join(_functions(previous=False))))
    return {row["proname"] for row in stored} >= needed


def _posting_kinds() -> list[tuple[str, bool]]:
    """Returns the rows of the table `posting_kind`."""
    unlimited = kinds_with(PostingFlag.UNLIMITED)
    return sorted((kind.value, kind in unlimited) for kind in PostingKind)


async def _store_posting_kinds(connection: Any) -> None:
    """Adds or changes kinds. It deletes none, because the previous version may still post them."""
    await connection.executemany(
        """
        INSERT INTO posting_kind (kind, may_exceed_limit) VALUES ($1, $2)
            ON CONFLICT (kind) DO UPDATE SET may_exceed_limit = excluded.may_exceed_limit
         WHERE posting_kind.may_exceed_limit <> excluded.may_exceed_limit""",
        _posting_kinds(),
    )


async def _replace_functions(connection: Any, role: str) -> None:
    """Replaces the SQL functions.

    A function's signature stays the same as long as the previous version may call it.
    """
    applied = await connection.fetchval("SELECT digest FROM function_set FOR UPDATE")
    if applied == _digest(role):
        return
    for script in _functions():
        await connection.execute(script)
    await rights.grant(connection, role)
    await connection.execute("UPDATE function_set SET digest = $1", _digest(role))


def _functions(*, previous: bool = True) -> list[str]:
    """`previous`: whether to return the functions that only the previous version calls, too."""
    files = sorted((FOLDER / "functions").glob("*.sql"))
    wanted = (file for file in files if previous or not file.name.startswith("previous_"))
    return [*(file.read_text() for file in wanted), *archive.functions()]


def _digest(role: str) -> str:
    """Returns a hash of the schema revision, the functions, the kinds, and the role's grants."""
    granted = *map(" ".join, rights.RIGHTS.items()), repr(rights.FIXED)
    kinds = map(repr, _posting_kinds())
    parts = [newest_revision(), role, *_functions(), *granted, *kinds]
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


async def _role_of(url: str) -> str:
    async with session(url, statement_seconds=_start_seconds()) as connection:
        role: str = await connection.fetchval("SELECT quote_ident(current_user)")
        return role
