"""The stored totals of clearing accounts, with later postings, equal the sum of all entries."""

import asyncio

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import clearing, posting, trx_ids
from manilla.ledger.posting import Line, Posting
from manilla.posting_kinds import PostingKind
from manilla.proofs import chain
from tests.support.invariants import ALL

ACCOUNT = posting.clearing("providera")
IN_ENTRIES = """
    SELECT coalesce(sum(amount_minor), 0)::bigint FROM entry
     WHERE account = $1 AND environment = 'production' AND currency = 'NGN'"""
IN_TOTALS = "SELECT coalesce(sum(minor), 0)::bigint FROM clearing_total WHERE account = $1"


def _credit(merchant_id: int, environment: Environment, minor: int = 700) -> Posting:
    return Posting(
        merchant_id=merchant_id,
        trx_id=trx_ids.new(merchant_id),
        kind=PostingKind.ADJUSTMENT,
        environment=environment,
        wallet=Money("NGN", minor),
        lines=(Line(ACCOUNT, -minor),),
    )


async def _post(db: Database, merchant_id: int, number: int) -> None:
    for environment in Environment:
        await posting.post(db, [_credit(merchant_id, environment) for _ in range(number)])


async def _is_equal(db: Database) -> bool:
    totals = await clearing.totals(db, ACCOUNT)
    return totals.get("NGN", 0) == await db.number(IN_ENTRIES, ACCOUNT)


async def test_totals_and_later_postings_equal_the_ledger(db: Database, merchant_id: int) -> None:
    await _post(db, merchant_id, 3)
    assert await _is_equal(db)  # no posting is in the totals
    await chain.extend(db)
    await clearing.add_final_postings(db)
    assert await db.number(IN_TOTALS, ACCOUNT) != 0
    assert await _is_equal(db)
    await _post(db, merchant_id, 2)
    assert await _is_equal(db)  # two postings are not in the totals


async def test_concurrent_workers_add_each_posting_once(
    db: Database, merchant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clearing, "IDS_MAX", 2)
    await _post(db, merchant_id, 5)
    await chain.extend(db)
    await asyncio.gather(*(clearing.add_final_postings(db) for _ in range(3)))
    await clearing.add_final_postings(db)
    assert await _is_equal(db)
    [rule] = [each for each in ALL if each.name == "clearing_totals_equal_their_entries"]
    assert await db.records(rule.violations) == []


async def test_a_posting_that_the_chain_does_not_cover_is_not_added(
    db: Database, merchant_id: int
) -> None:
    await chain.extend(db)
    await clearing.add_final_postings(db)
    before = await db.number(IN_TOTALS, ACCOUNT)
    await _post(db, merchant_id, 1)
    await clearing.add_final_postings(db)
    assert await db.number(IN_TOTALS, ACCOUNT) == before
    assert await _is_equal(db)
