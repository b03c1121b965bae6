"""SQL queries for the ledger."""

from collections.abc import Sequence

import msgspec

from manilla.kit.db import Connection, Database
from manilla.ledger.posting import LINES_MAX, Posted, Posting, PostingOutcome


class _PostedRow(msgspec.Struct, frozen=True):
    item: int
    outcome: str
    balance_minor: int | None


POST = """
    SELECT item, outcome, balance_minor
      FROM ledger_post($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"""


async def post(db: Database | Connection, postings: Sequence[Posting]) -> list[Posted]:
    """Posts all postings in one statement and returns their results in the same order."""
    rows = await db.rows(
        _PostedRow,
        POST,
        list(range(len(postings))),
        [posting.merchant_id for posting in postings],
        [posting.trx_id for posting in postings],
        [posting.kind for posting in postings],
        [posting.environment.value for posting in postings],
        [posting.wallet.currency for posting in postings],
        [posting.reason for posting in postings],
        [posting.wallet.minor for posting in postings],
        *_line_columns(postings),
    )
    rows.sort(key=lambda row: row.item)
    assert len(rows) == len(postings)
    return [Posted(PostingOutcome(row.outcome), row.balance_minor) for row in rows]


def _line_columns(postings: Sequence[Posting]) -> list[list[str | int | None]]:
    """Returns four columns: account and amount of all first lines, then of all second lines."""
    columns: list[list[str | int | None]] = []
    for number in range(LINES_MAX):
        lines = [posting.lines[number : number + 1] for posting in postings]
        columns.append([line[0].account if line else None for line in lines])
        columns.append([line[0].minor if line else None for line in lines])
    return columns
