"""The application's role has exactly the privileges that the code needs."""

import re
from pathlib import Path

import asyncpg
import pytest

from manilla.kit.database.connections import Database
from manilla.sql import rights

STATEMENT = re.compile(
    r"\b(?:(DELETE) FROM|(UPDATE)|(INSERT) INTO) (?:ONLY )?([a-z_]+)\b(?! OF| SKIP)"
)
UPSERT = re.compile(r"INSERT INTO ([a-z_]+)(?:(?!INSERT INTO).)*?DO UPDATE", re.DOTALL)
# The code chooses these table names at run time, so its SQL statements do not contain them.
NAMED_ELSEWHERE = {
    ("UPDATE", table)
    for table in (
        "approval",
        "credential",
        "dossier_document",
        "master_key_proof",
        "merchant",
        "person",
    )
} | {("UPDATE", "provider_credentials"), ("DELETE", "invitation"), ("DELETE", "password_reset")}
# Each process inserts a row into this table (see `sql/epochs.py`).
NAMED_ELSEWHERE |= {("INSERT", "event_epoch")}
# `delete_older` deletes expired rows of these tables.
NAMED_ELSEWHERE |= {
    ("DELETE", table) for table in ("delivery_attempt", "endpoint_delivery", "idempotency")
}
# The worker verifies the archive, whose code otherwise runs with the owner's role.
NAMED_ELSEWHERE |= {("UPDATE", "archive_month")}

# These functions run with the owner's privileges.
FUNCTIONS_OF_OWNER = {"archive_remove.sql", "notifications_delete.sql"}

# A move of a merchant runs with the owner's role, and uses this function of the package people.
WRITTEN_BY_OWNER = {("DELETE", "person")}

# Only the previous version needs these privileges.
NEEDED_BEFORE = {("DELETE", "api_request")}


async def test_the_role_has_exactly_the_listed_privileges(owner: Database) -> None:
    granted = await owner.records(
        """
        SELECT table_name, privilege_type FROM information_schema.role_table_grants
         WHERE table_schema = 'public' AND grantee = 'manilla_app'"""
    )
    assert {(each["table_name"], each["privilege_type"]) for each in granted} == {
        (table, right)
        for table, text in rights.RIGHTS.items()
        for right in text.split(", ")
        if not (right == "UPDATE" and table in rights.FIXED)
    }


@pytest.mark.parametrize("table", rights.FIXED)
async def test_the_role_can_update_all_columns_except_the_fixed_ones(
    owner: Database, table: str
) -> None:
    refused = await owner.records(
        """
        SELECT attname FROM pg_attribute
         WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
           AND NOT has_column_privilege('manilla_app', attrelid, attnum, 'UPDATE')""",
        table,
    )
    assert {each["attname"] for each in refused} == set(rights.FIXED[table])


@pytest.mark.parametrize(
    "table",
    ["payment", "payout", "refund", "charge", "wallet", "posting", "entry", "timeline", "merchant"]
    + ["notification", "operator_case", "case_event", "audit", "person", "setting", "payout_batch"]
    + ["posting_chain", "posting_chain_head"],
)
async def test_records_of_merchants_and_users_cannot_be_deleted(db: Database, table: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(f"DELETE FROM {table}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(f"TRUNCATE {table}")


@pytest.mark.parametrize(
    "table", ["posting", "entry", "timeline", "audit", "merchant_key", "posting_chain"]
)
async def test_append_only_rows_cannot_be_changed(db: Database, table: str) -> None:
    column = await db.value(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1 LIMIT 1", table
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(f"UPDATE {table} SET {column} = {column}")


GRANTED = {
    (right, table)
    for table, text in rights.RIGHTS.items()
    for right in text.split(", ")
    if right != "SELECT"
}


def test_every_statement_has_the_privilege_it_needs(project: Path) -> None:
    assert _written_by_all(project) - WRITTEN_BY_OWNER - GRANTED == set()


def test_no_privilege_is_granted_that_no_statement_needs(project: Path) -> None:
    assert GRANTED - _written_by_all(project) - NAMED_ELSEWHERE - NEEDED_BEFORE == set()


def _written_by_all(project: Path) -> set[tuple[str, str]]:
    """Returns the SQL writes of the platform and the demo shop, which use the same role."""
    return _written(project / "manilla") | _written(project / "simulator" / "src")


def _written(code: Path) -> set[tuple[str, str]]:
    """Returns the operation and the table of each SQL write in the code.

    The owner's writes are not included: the owner runs migrations, moves old months to the archive
    and merchants to other cells, and moves the demo history into the past.
    """
    by_owner = {
        code / "sql",
        code / "proofs" / "archive",
        code / "cells" / "moving",
        code / "manilla_simulator" / "history",
    }
    programs = (file for file in code.rglob("*.py") if not by_owner & set(file.parents))
    functions = (
        file for file in code.glob("sql/functions/*.sql") if file.name not in FUNCTIONS_OF_OWNER
    )
    texts = [file.read_text() for file in (*programs, *functions)]
    found = {
        (next(filter(None, match[:3])), match[3])
        for text in texts
        for match in STATEMENT.findall(text)
    }
    upserted = {
        ("UPDATE", match)
        for text in texts
        for match in re.findall(
            r"INSERT INTO ([a-z_]+)(?:(?!INSERT INTO).)*?DO UPDATE", text, re.DOTALL
        )
    }
    return found | upserted
