"""A wallet's statement as pages, exports and emails show it.

Each line has the merchant's reference, the customer's or the beneficiary's name, and the fee.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from manilla.kit.database.rows import Reads
from manilla.kit.fields import Columns, Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import ROWS_MAX
from manilla.kit.money import Money
from manilla.ledger import statement
from manilla.ledger.posting import PAYOUT_FEE, tax
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter, WalletStatementLine
from manilla.posting_kinds import PostingFlag, PostingKind, in_sql, kind_of, kinds_with
from manilla.transaction_types import TYPES, TransactionType


class WalletLine(WalletStatementLine, frozen=True, kw_only=True):
    ref_trx: str | None = None  # a refund without a reference of its own has its payment's
    name: str | None = None  # the customer, or the beneficiary of a payout
    # The part of the amount that is a fee, with its taxes; positive if it was debited.
    fee_minor: int = 0
    tax_minor: int = 0  # the part of the fee that the platform owes as taxes
    # The type of the transaction; None for other lines, such as funding.
    source: str | None = None
    source_id: str | None = None

    @property
    def fee(self) -> Money | None:
        return Money(self.currency, self.fee_minor) if self.fee_minor else None

    @property
    def taxes(self) -> Money | None:
        return Money(self.currency, self.tax_minor) if self.fee_minor else None


STATEMENT_FIELDS = Fields(WalletLine, time="posted_at")
STATEMENT_COLUMNS = STATEMENT_FIELDS.select(
    {
        "Time": "posted_at",
        "Kind": "kind",
        "Transaction": "trx_id",
        "Note": "note",
        "Currency": "currency",
        "Amount": "amount",
        "Balance": "balance",
        # New columns come last, because programs may read the others by their position.
        "Reference": "ref_trx",
        "Name": "name",
        "Fee": "fee",
    }
)


def with_taxes(columns: Columns[WalletLine], title: str = "Taxes") -> Columns[WalletLine]:
    """Returns the columns of an installation that has taxes."""
    return {**columns, title: attrgetter("taxes")}


# Whether a line's fee is debited or, with a refunded payout, credited.
FEE_SIGNS: dict[str, int] = {
    **dict.fromkeys(kinds_with(PostingFlag.FEE), 1),
    **dict.fromkeys(kinds_with(PostingFlag.FEE_RETURNED), -1),
}


def _row(kind: TransactionType, key: str, column: str = "trx_id", own: str = "0") -> str:
    # BETWEEN and ORDER BY force index scans, as in `ledger/reader.py`.
    parent = f", {kind.parent_column} AS parent_id" if kind.parent else ""
    return f"""
           (SELECT trx_id, ref_trx, {kind.counterparty} AS name, {own} AS own_minor{parent}
              FROM {kind.name}
             WHERE merchant_id = $1 AND {column} BETWEEN {key} AND {key}
             ORDER BY {column} LIMIT 1)"""


def _source(kind: TransactionType, column: str, own: str) -> str:
    """Selects the transaction whose `column` is `looked.trx_id`."""
    row = _row(kind, "looked.trx_id", column, own)
    if kind.parent is None:
        return f"SELECT '{kind.name}' AS source, own.* FROM {row} AS own"
    return f"""SELECT '{kind.name}', own.trx_id, coalesce(own.ref_trx, parent.ref_trx), parent.name,
                   own.own_minor
              FROM {row} AS own
              LEFT JOIN LATERAL {_row(kind.parent, "own.parent_id")} AS parent ON true"""


_FOUND = " UNION ALL ".join(
    [
        *(_source(each, "trx_id", each.without_fee) for each in TYPES),
        # Nothing but fees and taxes is posted under these ids.
        *(_source(each, other.column, "0::bigint") for each in TYPES for other in each.other_ids),
    ]
)
_SOURCES = f"""
    SELECT looked.trx_id AS id, found.source, found.trx_id, ref_trx, name, own_minor
      FROM unnest($2::text[]) AS looked (trx_id)
     CROSS JOIN LATERAL ({_FOUND} LIMIT 1) AS found"""


_TAXES = f"""
    SELECT posting_id, sum(amount_minor)::bigint AS minor FROM entry
     WHERE merchant_id = $1 AND posting_id = ANY($2::bigint[]) AND account ^@ '{tax("")}'
     GROUP BY posting_id"""


async def lines(
    db: Reads,
    tenant: Tenant,
    currency: str,
    wanted: StatementFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[WalletLine]:
    """Returns one page of the wallet's statement, newest first."""
    page = await statement.lines(db, tenant, currency, wanted, after=after, limit=limit)
    return Page(await _with_sources(db, tenant, page.rows), page.next)


async def _with_sources(
    db: Reads, tenant: Tenant, found: Sequence[WalletStatementLine]
) -> list[WalletLine]:
    # Postings from the suspense account have a charge's reference, such as `<payment id>-1`.
    ids = [line.trx_id.partition("-")[0] for line in found]
    records = await db.records(_SOURCES, tenant.merchant_id, ids) if ids else []
    sources = {record["id"]: record for record in records}
    taxes = await db.records(_TAXES, tenant.merchant_id, [line.id for line in found])
    tax_minors = {record["posting_id"]: record["minor"] for record in taxes}
    return [
        _with_source(line, sources.get(trx_id), tax_minors.get(line.id, 0))
        for line, trx_id in zip(found, ids, strict=True)
    ]


def _with_source(line: WalletStatementLine, source: Any, tax_minor: int) -> WalletLine:
    known = msgspec.structs.asdict(line)
    if source is None:
        return WalletLine(**known)
    sign = FEE_SIGNS.get(line.kind, 0)
    return WalletLine(
        **known,
        ref_trx=source["ref_trx"] or None,
        name=source["name"],
        fee_minor=-line.amount_minor - sign * source["own_minor"] if sign else 0,
        tax_minor=tax_minor if sign else 0,
        source=source["source"],
        source_id=source["trx_id"],
    )


# The customer pays the taxes that the posting of a payment has.
_NO_FEE = in_sql((PostingKind.PAYMENT, PostingKind.REFUND_COMMISSION))
_FEE = f"""
    SELECT coalesce(sum(fee.amount_minor), 0)::bigint FROM entry fee
     WHERE fee.merchant_id = entry_of_wallet.merchant_id
       AND fee.posting_id = entry_of_wallet.posting_id
       AND (fee.account = '{PAYOUT_FEE}' OR fee.account ^@ '{tax("")}')"""


class StatementTotals(msgspec.Struct, frozen=True):
    """A period's totals: opening + received - fees - sent = closing."""

    opening: Money
    received: Money
    fees: Money
    sent: Money
    closing: Money


async def totals(
    db: Reads, tenant: Tenant, currency: str, wanted: StatementFilter
) -> StatementTotals | None:
    """Returns the totals of a period, or None if it has more than ROWS_MAX lines."""
    about = await statement.entries_wanted(db, tenant, currency, wanted)
    record = await db.record(
        f"""
        SELECT count(*) AS count, coalesce(sum(greatest(own_minor, 0)), 0)::bigint AS received,
               coalesce(-sum(least(own_minor, 0)), 0)::bigint AS sent,
               coalesce(sum(fee_minor), 0)::bigint AS fees
          FROM (SELECT CASE kind WHEN '{PostingKind.CARRIED_FORWARD}' THEN 0
                       ELSE amount_minor + fee_minor END AS own_minor, fee_minor
                  FROM (SELECT kind, amount_minor,
                               CASE WHEN kind = '{PostingKind.COMMISSION}' THEN -amount_minor
                               WHEN kind IN {_NO_FEE} THEN 0 ELSE ({_FEE}) END AS fee_minor
                          FROM (SELECT e.merchant_id, e.posting_id, e.amount_minor,
                                       {kind_of("p.kind")} AS kind
                                  FROM {statement.ENTRIES}
                                 WHERE {about.sql} LIMIT {ROWS_MAX + 1}) AS entry_of_wallet
                       ) AS with_fee) AS line""",
        *about.values,
    )
    assert record is not None
    if record["count"] > ROWS_MAX:
        return None
    until = StatementFilter(until=wanted.until)
    newest = (await statement.lines(db, tenant, currency, until, limit=1)).rows
    received, fees, sent = (Money(currency, record[name]) for name in ("received", "fees", "sent"))
    closing = newest[0].balance if newest else Money(currency, 0)
    return StatementTotals(closing - received + fees + sent, received, fees, sent, closing)
