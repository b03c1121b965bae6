"""SQL queries of the ledger."""

from collections.abc import Sequence

import msgspec

from manilla.kit.db import Connection, Database
from manilla.ledger.posting import Outcome, Posted, Posting


class _Row(msgspec.Struct, frozen=True):
    item: int
    outcome: str
    balance_minor: int | None


POST = """
    SELECT item, outcome, balance_minor
      FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"""


async def post(db: Database | Connection, postings: Sequence[Posting]) -> list[Posted]:
    """Posts all postings in one statement and returns their results in the same order."""
    rows = await db.rows(
        _Row,
        POST,
        list(range(len(postings))),
        [posting.merchant_id for posting in postings],
        [posting.trx_id for posting in postings],
        [posting.kind for posting in postings],
        [posting.environment.value for posting in postings],
        [posting.wallet.currency for posting in postings],
        [posting.reason for posting in postings],
        [posting.wallet.minor for posting in postings],
        [posting.first.account for posting in postings],
        [posting.first.minor for posting in postings],
        [posting.second.account if posting.second else None for posting in postings],
        [posting.second.minor if posting.second else None for posting in postings],
    )
    rows.sort(key=lambda row: row.item)
    assert len(rows) == len(postings)
    return [Posted(Outcome(row.outcome), row.balance_minor) for row in rows]
