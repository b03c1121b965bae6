"""Every list of posting kinds contains all of them, and the database rejects all others."""

import re
from pathlib import Path

import asyncpg
import pytest

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import posting, trx_ids
from manilla.ledger.posting import Line, Posting, PostingOutcome
from manilla.ledger.statement import NOTED
from manilla.lookup.wallet_statement import FEE_SIGNS
from manilla.posting_kinds import (
    PostingFlag,
    PostingKind,
    PostingSource,
    kind_named,
    kinds_of,
    kinds_with,
    stored_kind,
)
from manilla.proofs.checks import COMPLETENESS
from manilla.providers.port import LineKind
from manilla.reconciliation import movements
from manilla.web.columns.statement import KIND

RULES = {rule.name: rule.violations for rule in COMPLETENESS}
BY_BEGINNING = re.compile(
    r"kind\"?(?: NOT)? I?LIKE\b|kind\"? (?:\^@|!?~)|(?:starts_with|substr|left)\([\w.]*kind\b"
    r"|\bkind(?:\.value)?\.(?:startswith|removeprefix|partition|split)\(|PostingKind\(f"
)


class _RolledBack(Exception):
    """Ends a transaction whose postings must not stay in the ledger."""


def _posting(kind: PostingKind, merchant_id: int, part: str = "", wallet_minor: int = 0) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_ids.new(merchant_id),
        kind=kind,
        environment=Environment.SANDBOX,
        wallet=Money("NGN", wallet_minor),
        lines=(Line(posting.ADJUSTMENT, 5 - wallet_minor), Line(posting.BANK, -5)),
        part=part,
    )


async def test_the_ledger_posts_every_kind_with_and_without_a_part(
    db: Database, merchant_id: int
) -> None:
    orders = [_posting(kind, merchant_id, part) for kind in PostingKind for part in ("", "2")]
    with pytest.raises(_RolledBack):
        async with db.transaction() as connection:
            results = await posting.post(connection, orders)
            assert {result.outcome for result in results} == {PostingOutcome.POSTED}
            kinds = await connection.records(
                "SELECT kind FROM posting WHERE merchant_id = $1 AND trx_id = ANY ($2) ORDER BY id",
                *(merchant_id, [order.trx_id for order in orders]),
            )
            stored_kinds = [name for kind in PostingKind for name in (kind.value, f"{kind}:2")]
            assert [record["kind"] for record in kinds] == stored_kinds
            raise _RolledBack


@pytest.mark.parametrize("kind", ["dispute", "", "payments", "pay", "case", "dispute:2", ":2"])
async def test_the_ledger_rejects_an_unknown_kind(
    db: Database, merchant_id: int, kind: str
) -> None:
    with pytest.raises(asyncpg.RaiseError, match=f"The posting kind {kind} is unknown"):
        await db.records(
            posting.POST,
            *([0], [merchant_id], [trx_ids.new(merchant_id)], [kind], ["sandbox"], ["NGN"]),
            *([None], [0], [1, 1], [posting.ADJUSTMENT, posting.BANK], [5, -5]),
        )


async def test_the_database_has_every_kind(db: Database) -> None:
    records = await db.records("SELECT kind, may_exceed_limit FROM posting_kind")
    limits = {record["kind"]: record["may_exceed_limit"] for record in records}
    unlimited = kinds_with(PostingFlag.UNLIMITED)
    assert limits == {kind: kind in unlimited for kind in PostingKind}


async def test_the_application_cannot_change_the_kinds(db: Database) -> None:
    for statement in (
        "INSERT INTO posting_kind VALUES ('dispute', true)",
        "UPDATE posting_kind SET may_exceed_limit = true",
        "DELETE FROM posting_kind",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute(statement)


@pytest.mark.parametrize("kind", PostingKind)
def test_every_list_has_the_kind(kind: PostingKind) -> None:
    assert kind_named(kind.value) is kind
    assert kind.heading
    assert kind in kinds_of(kind.source)
    assert f"'{kind}'" in RULES["postings_have_their_transaction"]
    is_wallet = PostingFlag.WALLET in kind.flags
    assert is_wallet == (kind in {value for value, *_ in KIND.options})
    assert is_wallet or not (kind in NOTED or kind in FEE_SIGNS)
    assert movements.LINE_KINDS.get(kind) == kind.statement_line
    assert kind.statement_line is None or LineKind(kind.statement_line)
    assert (kind.source is PostingSource.ADMINISTRATOR) == (kind.audit_action is not None)
    if kind.audit_action is not None:
        assert f"'{kind.audit_action}'" in RULES["administrators_movements_were_posted"]


def test_only_a_kind_that_changes_wallets_can_change_a_wallet() -> None:
    for kind in PostingKind:
        if PostingFlag.WALLET in kind.flags:
            assert _posting(kind, 1, wallet_minor=3).wallet.minor == 3
        else:
            with pytest.raises(AssertionError, match="must not change a wallet"):
                _posting(kind, 1, wallet_minor=3)


def test_the_stored_kind_contains_the_part() -> None:
    assert stored_kind(PostingKind.SUSPENSE, "") == "suspense"
    assert stored_kind(PostingKind.SUSPENSE, "2") == "suspense:2"
    assert kind_named("suspense:2") is None
    assert kind_named("dispute") is None


def test_no_statement_decides_by_the_beginning_of_a_kind() -> None:
    """A new kind whose name starts with another kind's name would be mistaken for that kind."""
    files = [*Path("manilla").rglob("*.py"), *Path("manilla/sql/functions").glob("*.sql")]
    found = [f"{file}: {each}" for file in files for each in BY_BEGINNING.findall(file.read_text())]
    assert found == []
