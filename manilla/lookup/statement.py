"""A merchant's combined wallet statement, with the merchant's own references."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from manilla.kit.batch import SharedReads
from manilla.kit.clock import iso, iso_of_sql
from manilla.kit.database.rows import Reads
from manilla.kit.listing import INTEGER_MAX, Page, cursor, page_of, read_cursor
from manilla.ledger import statement
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter, WalletStatementLine
from manilla.posting_kinds import kind_of
from manilla.transaction_types import TYPES, TransactionType

# Pages are read in one SQL statement if their posting ids differ by at most this much.
TOGETHER_MAX = 5_000

# Selects the merchant's reference for the transaction `looked.trx_id`.
# BETWEEN and ORDER BY force index scans, as in `ledger/reader.py`.
_OF_ID = ", ".join(
    f"""(SELECT ref_trx FROM {table}
          WHERE merchant_id = looked.owner AND {column} BETWEEN looked.trx_id AND looked.trx_id
          ORDER BY {column} LIMIT 1)"""
    for table, column in (
        *((kind.name, "trx_id") for kind in TYPES),
        *((kind.name, other.column) for kind in TYPES for other in kind.other_ids),
    )
)
_REFERENCE = f"coalesce({_OF_ID}) AS ref_trx"
_REFERENCES = f"""
    SELECT trx_id, {_REFERENCE}
      FROM (SELECT $1::bigint AS owner, trx_id FROM unnest($2::text[]) AS t (trx_id)) AS looked"""
# Selects the newest ledger entries of all the merchant's wallets, or of one wallet.
_NEWEST = """
    SELECT place, currency, posting_id, amount_minor, balance_minor
      FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::integer[])
           AS wanted (place, owner, wanted_environment, wanted_currency, before, rows_max)
     CROSS JOIN LATERAL (
           SELECT found.* FROM wallet
            CROSS JOIN LATERAL (
                  SELECT currency, posting_id, amount_minor, balance_minor FROM entry
                   WHERE account = 'wallet' AND merchant_id = owner
                     AND environment = wallet.environment AND currency = wallet.currency
                     AND posting_id < before
                   ORDER BY posting_id DESC LIMIT rows_max) AS found
            WHERE merchant_id = owner AND environment = wanted_environment::environment
              AND wallet.currency = coalesce(wanted_currency, wallet.currency)
            ORDER BY posting_id DESC LIMIT rows_max) AS page"""
# Selects a merchant's postings between two ids. `ledger/posting_rows.py` explains the OFFSET 0.
_POSTINGS = f"""
    SELECT place, id, posted_at::text, kind, trx_id, {_REFERENCE}
      FROM unnest($1::integer[], $2::bigint[], $3::bigint[], $4::bigint[])
           AS wanted (place, wanted_merchant, low, high)
     CROSS JOIN LATERAL (
           SELECT merchant_id AS owner, id, posted_at, {kind_of("kind")} AS kind,
                  split_part(trx_id, '-', 1) AS trx_id
             FROM (SELECT * FROM posting WHERE id BETWEEN low AND high OFFSET 0) AS near
            WHERE merchant_id = wanted_merchant) AS looked"""


def _ids_of_reference(kind: TransactionType) -> str:
    """Selects the ids of the transaction with the merchant's reference, and of its parts."""
    ids = (
        f"SELECT i.{each.column} FROM one JOIN {each.table} i"
        " ON i.merchant_id = $1 AND i.trx_id = one.trx_id"
        for each in kind.ids
    )
    return f"""
    (WITH one AS (
        SELECT trx_id FROM {kind.name}
         WHERE merchant_id = $1 AND environment = $2 AND ref_trx BETWEEN $3 AND $3
         ORDER BY ref_trx LIMIT 1)
     {" UNION ALL ".join(ids)})"""


# Selects all transaction ids in the ledger that belong to one of the merchant's references.
_NAMED = " UNION ALL ".join(map(_ids_of_reference, TYPES))


class StatementEntry(msgspec.Struct, frozen=True, gc=False):
    trx_id: str
    ref_trx: str | None  # None for transactions that have no reference, such as funding
    kind: str
    currency: str
    amount_minor: int
    balance_minor: int
    posted_at: str  # in the API's time format


async def page(
    db: Reads,
    tenant: Tenant,
    currencies: Sequence[str],
    *,
    since: datetime | None,
    until: datetime | None,
    ref_trx: str | None,
    after: str | None,
    limit: int,
) -> Page[StatementEntry]:
    """Returns one page of the combined wallet statements, newest first."""
    wanted = StatementFilter(since=since, until=until)
    if ref_trx is not None:
        named = await _named(db, tenant, ref_trx)
        if not named:
            return Page([])
        wanted = msgspec.structs.replace(wanted, search=named[0], named=named[1:])
    pages = [
        await statement.lines(db, tenant, currency, wanted, after=after, limit=limit + 1)
        for currency in currencies
    ]
    merged = _merged(pages, limit)
    return Page(await _with_references(db, tenant, merged.rows), merged.next)


async def newest(
    pages: SharedReads, tenant: Tenant, currency: str | None, after: str | None, limit: int
) -> Page[StatementEntry] | None:
    """Returns a page of the entries of all wallets, or of one wallet, newest first.

    One SQL statement reads this page and the pages of other requests. Returns None if the page's
    postings are far apart, because reading them would delay the other pages.
    """
    before = read_cursor(int, after)
    found = await pages.records(
        *(_NEWEST, tenant.merchant_id, tenant.environment, currency),
        *(INTEGER_MAX if before is None else before, limit + 1),
    )
    if not found:
        return Page([])
    shown = page_of(found, limit, itemgetter("posting_id"))
    first, last = shown.rows[-1]["posting_id"], shown.rows[0]["posting_id"]
    if last - first > TOGETHER_MAX:
        return None
    records = await pages.records(_POSTINGS, tenant.merchant_id, first, last)
    postings = {posting["id"]: posting for posting in records}
    entries = [_entry(record, postings[record["posting_id"]]) for record in shown.rows]
    return Page(entries, shown.next)


def _entry(record: Any, posting: Any) -> StatementEntry:
    _, currency, _, amount_minor, balance_minor = record
    _, _, posted_at, kind, trx_id, ref_trx = posting
    at = iso_of_sql(posted_at)
    return StatementEntry(trx_id, ref_trx, kind, currency, amount_minor, balance_minor, at)


def _merged(pages: Sequence[Page[WalletStatementLine]], limit: int) -> Page[WalletStatementLine]:
    """Merges the wallets' pages, but only as far back as every page reaches."""
    ends = [read_cursor(int, each.next) or 0 for each in pages]
    reached = max(ends, default=0)
    lines = sorted(
        (line for each in pages for line in each.rows if line.id >= reached),
        key=attrgetter("id"),
        reverse=True,
    )
    page = page_of(lines, limit, attrgetter("id"))
    return Page(page.rows, page.next or (cursor(reached) if reached else None))


async def _with_references(
    db: Reads, tenant: Tenant, lines: Sequence[WalletStatementLine]
) -> list[StatementEntry]:
    # Postings from the suspense account have a charge's reference, such as `<payment id>-1`.
    ids = [line.trx_id.partition("-")[0] for line in lines]
    records = await db.records(_REFERENCES, tenant.merchant_id, ids) if ids else []
    references = {record["trx_id"]: record["ref_trx"] for record in records}
    return [
        StatementEntry(
            trx_id=trx_id,
            ref_trx=references[trx_id],
            kind=line.kind,
            currency=line.currency,
            amount_minor=line.amount_minor,
            balance_minor=line.balance_minor,
            posted_at=iso(line.posted_at),
        )
        for line, trx_id in zip(lines, ids, strict=True)
    ]


async def _named(db: Reads, tenant: Tenant, ref_trx: str) -> list[str]:
    records = await db.records(_NAMED, tenant.merchant_id, tenant.environment, ref_trx)
    return [record["trx_id"] for record in records if record["trx_id"] is not None]
