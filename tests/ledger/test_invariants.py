"""Each invariant check detects a violation. The application's role cannot cause violations."""

import asyncpg
import pytest

from manilla.kit.database.connections import Database
from manilla.ledger import invariants
from manilla.ledger.invariants import LEDGER, Finding

DAMAGE = {
    "entries_sum_to_zero": "UPDATE entry SET amount_minor = amount_minor + 1"
    " WHERE account = 'adjustment' AND {here}",
    "postings_sum_to_zero": "DELETE FROM entry WHERE account = 'adjustment' AND {here}",
    "entries_have_their_posting": "DELETE FROM posting WHERE merchant_id = {merchant}"
    " AND id = {posting}",
    "accounts_are_known": "UPDATE entry SET account = 'savings'"
    " WHERE account = 'adjustment' AND {here}",
    "only_returns_exceed_the_limit": "UPDATE posting_kind SET may_exceed_limit = true"
    " WHERE kind = 'payment'",
    "postings_keep_to_one_environment": "UPDATE entry SET environment = 'production' WHERE {here}",
    "wallets_equal_their_entries": "UPDATE wallet SET balance_minor = balance_minor + 1"
    " WHERE merchant_id = {merchant} AND environment = 'sandbox'",
    "wallets_are_not_below_zero": "UPDATE entry SET balance_minor = -1"
    " WHERE account = 'wallet' AND {here}",
    "wallet_history_is_gapless": "UPDATE entry SET balance_minor = balance_minor + 1"
    " WHERE account = 'wallet' AND {here}",
    "clearing_totals_equal_their_entries": "INSERT INTO clearing_total"
    " VALUES ('clearing:providera', 'production', 'NGN', 1)",
}


def test_every_invariant_has_a_test_violation() -> None:
    assert set(DAMAGE) == {invariant.name for invariant in LEDGER}


@pytest.mark.parametrize("name", DAMAGE)
async def test_an_invariant_finds_its_violation(
    name: str, db: Database, owner: Database, merchant_id: int
) -> None:
    posting = await db.value("SELECT min(id) FROM posting WHERE merchant_id = $1", merchant_id)
    here = f"merchant_id = {merchant_id} AND posting_id = {posting}"
    found: list[Finding] = []
    with pytest.raises(_Undo):
        async with owner.transaction() as connection:
            await connection.execute("ALTER TABLE posting DISABLE TRIGGER USER")
            await connection.execute("ALTER TABLE entry DISABLE TRIGGER USER")
            await connection.execute(
                DAMAGE[name].format(here=here, merchant=merchant_id, posting=posting)
            )
            found = [await invariants.find(connection, invariant) for invariant in LEDGER]
            raise _Undo
    broken = {finding.name: finding for finding in found if finding.count}
    assert name in broken
    assert broken[name].examples


class _Undo(Exception):
    pass


@pytest.mark.parametrize("table", ["posting", "entry"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET merchant_id = 1", "DELETE FROM {}"])
async def test_the_application_cannot_rewrite_postings(
    db: Database, table: str, statement: str
) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(statement.format(table))
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute(f"TRUNCATE {table}")


@pytest.mark.parametrize("table", ["posting", "entry"])
@pytest.mark.parametrize(
    "statement", ["UPDATE {} SET merchant_id = 1", "DELETE FROM {}", "TRUNCATE {}"]
)
async def test_the_owner_cannot_rewrite_postings_by_mistake(
    owner: Database, table: str, statement: str
) -> None:
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await owner.execute(statement.format(table))


async def test_the_application_cannot_change_the_schema(db: Database) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute("ALTER TABLE wallet DROP CONSTRAINT wallet_balance_minor_check")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await db.execute("CREATE TABLE mine (id int)")


async def test_the_database_rejects_a_negative_wallet(db: Database, merchant_id: int) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await db.execute("UPDATE wallet SET balance_minor = -1 WHERE merchant_id = $1", merchant_id)
