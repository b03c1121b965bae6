"""A merchant's statement over all its wallets, with the merchant's own references."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from manilla.kit.db import Database
from manilla.kit.listing import Page, cursor, read_cursor
from manilla.ledger import listing
from manilla.ledger.listing import StatementFilter, WalletStatementLine
from manilla.ledger.scope import Tenant

# Each row is found by its full key, in the order of one index: see `ledger/reader.py`.
_REFERENCES = """
    SELECT t.trx_id, coalesce(
           (SELECT ref_trx FROM payment
             WHERE merchant_id = $1 AND trx_id BETWEEN t.trx_id AND t.trx_id
             ORDER BY trx_id LIMIT 1),
           (SELECT ref_trx FROM payout
             WHERE merchant_id = $1 AND trx_id BETWEEN t.trx_id AND t.trx_id
             ORDER BY trx_id LIMIT 1),
           (SELECT ref_trx FROM refund
             WHERE merchant_id = $1 AND trx_id BETWEEN t.trx_id AND t.trx_id
             ORDER BY trx_id LIMIT 1),
           (SELECT ref_trx FROM payment
             WHERE merchant_id = $1 AND commission_trx_id BETWEEN t.trx_id AND t.trx_id
             ORDER BY commission_trx_id LIMIT 1)) AS ref_trx
      FROM unnest($2::text[]) AS t (trx_id)"""
# The ids in postings of the transactions with a reference: a payment's commission and charges too.
_NAMED = """
    WITH one AS (
        SELECT trx_id, commission_trx_id FROM payment
         WHERE merchant_id = $1 AND environment = $2 AND ref_trx BETWEEN $3 AND $3
         ORDER BY ref_trx LIMIT 1)
    SELECT trx_id FROM one
    UNION ALL SELECT commission_trx_id FROM one WHERE commission_trx_id IS NOT NULL
    UNION ALL SELECT charge.reference FROM one
                JOIN charge ON charge.merchant_id = $1 AND charge.trx_id = one.trx_id
    UNION ALL (SELECT trx_id FROM payout
         WHERE merchant_id = $1 AND environment = $2 AND ref_trx BETWEEN $3 AND $3
         ORDER BY ref_trx LIMIT 1)
    UNION ALL (SELECT trx_id FROM refund
         WHERE merchant_id = $1 AND environment = $2 AND ref_trx BETWEEN $3 AND $3
         ORDER BY ref_trx LIMIT 1)"""


class StatementEntry(msgspec.Struct, frozen=True):
    line: WalletStatementLine
    trx_id: str
    ref_trx: str | None  # None for money without a reference of the merchant, such as funding


class WalletsPage(msgspec.Struct, frozen=True):
    entries: list[StatementEntry]
    next: int | None  # the posting after which the next page starts; None: the last page


async def page(
    db: Database,
    tenant: Tenant,
    currencies: Sequence[str],
    *,
    since: datetime | None,
    until: datetime | None,
    ref_trx: str | None,
    after: int | None,
    limit: int,
) -> WalletsPage:
    """Returns one page of the statements of these wallets together, newest first."""
    wanted = StatementFilter(since=since, until=until)
    if ref_trx is not None:
        named = await _named(db, tenant, ref_trx)
        if not named:
            return WalletsPage([], None)
        wanted = msgspec.structs.replace(wanted, search=named[0], named=named[1:])
    start = None if after is None else cursor(after)
    pages = [
        await listing.statement(db, tenant, currency, wanted, after=start, limit=limit + 1)
        for currency in currencies
    ]
    lines, following = _merged(pages, limit)
    return WalletsPage(await _with_references(db, tenant, lines), following)


def _merged(
    pages: Sequence[Page[WalletStatementLine]], limit: int
) -> tuple[list[WalletStatementLine], int | None]:
    """Merges the wallets' pages, down to the posting that all of them have reached."""
    ends = [read_cursor(int, each.next) or 0 for each in pages]
    reached = max(ends, default=0)
    lines = sorted(
        (line for each in pages for line in each.rows if line.posting_id >= reached),
        key=lambda line: line.posting_id,
        reverse=True,
    )
    if len(lines) > limit:
        return lines[:limit], lines[limit - 1].posting_id
    return lines, reached or None


async def _with_references(
    db: Database, tenant: Tenant, lines: Sequence[WalletStatementLine]
) -> list[StatementEntry]:
    # Money from suspense is posted under the charge's reference: the payment's id and a number.
    ids = [line.trx_id.partition("-")[0] for line in lines]
    records = await db.records(_REFERENCES, tenant.merchant_id, ids) if ids else []
    references = {record["trx_id"]: record["ref_trx"] for record in records}
    return [
        StatementEntry(line, trx_id, references[trx_id])
        for line, trx_id in zip(lines, ids, strict=True)
    ]


async def _named(db: Database, tenant: Tenant, ref_trx: str) -> list[str]:
    records = await db.records(_NAMED, tenant.merchant_id, tenant.environment, ref_trx)
    return [record["trx_id"] for record in records]
