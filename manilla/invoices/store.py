"""SQL of fee invoices: rows, numbers, recipients, and the pages of a list."""

from datetime import date, datetime
from typing import Any

import msgspec

from manilla.invoices.invoice import Invoice, InvoiceNotFound, Party
from manilla.kit import listing
from manilla.kit.clock import iso
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads, RowSource, columns
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import AmountFilter, Selection, SortKeys, SortOrder, Totals
from manilla.ledger.scope import Scope, merchant_condition

_COLUMNS = columns(Invoice)
_JSON = ("lines", "supplier", "customer")
_ORDERS = {
    SortOrder.NEWEST: SortKeys(("issued_at", "number"), tuple[datetime, str]),
    SortOrder.OLDEST: SortKeys(("issued_at", "number"), tuple[datetime, str], False),
    SortOrder.LARGEST: SortKeys(("amount_minor", "number"), tuple[int, str]),
    SortOrder.SMALLEST: SortKeys(("amount_minor", "number"), tuple[int, str], False),
}
FIELDS = Fields(
    Invoice,
    fee="fee.amount",
    tax=lambda row: row.shown(row.amount_minor - row.sign * row.fee.minor).amount,
    total="total.amount",
    month="month_name",
    issued_at=lambda row: iso(row.issued_at),
    customer="customer.name",
    customer_tax_id="customer.tax_id",
)


class InvoiceFilter(AmountFilter, frozen=True, kw_only=True):
    currency: str | None = None
    month: str | None = None  # such as 2026-11


def read(record: Any) -> Invoice:
    fields = dict(record)
    parsed = {name: msgspec.json.decode(fields[name]) for name in _JSON}
    return msgspec.convert(fields | parsed, Invoice)


async def page(
    db: Reads,
    scope: Scope,
    wanted: InvoiceFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[Invoice]:
    return await _selected(scope, wanted).page(db, read, wanted.sort, after, limit)


async def totals(db: Reads, scope: Scope, wanted: InvoiceFilter) -> Totals:
    return await _selected(scope, wanted).totals(db)


def _selected(scope: Scope, wanted: InvoiceFilter) -> Selection:
    conditions = (
        merchant_condition(scope)
        .add("{} = 'production'", scope.environment or Environment.PRODUCTION)
        .add_given("currency = {}", wanted.currency)
        .add_given("to_char(month, 'YYYY-MM') = {}", wanted.month)
        .add_given("number = {}", listing.search_text(wanted.search))
        .add_given("amount_minor >= {}", wanted.min_minor)
        .add_given("amount_minor <= {}", wanted.max_minor)
        .add_given("issued_at >= {}", wanted.since)
        .add_given("issued_at < {}", wanted.until)
    )
    return Selection("fee_invoice", _COLUMNS, _ORDERS, conditions)


async def find(db: RowSource, number: str, merchant_id: int | None = None) -> Invoice:
    """Returns the invoice with this number, of this merchant if one is given."""
    record = await db.record(
        f"""
        SELECT {_COLUMNS} FROM fee_invoice
         WHERE number = $1 AND ($2::bigint IS NULL OR merchant_id = $2)""",
        *(number, merchant_id),
    )
    if record is None:
        raise InvoiceNotFound
    return read(record)


async def newest_of(db: RowSource, merchant_id: int, month: date, currency: str) -> Invoice | None:
    record = await db.record(
        f"""
        SELECT {_COLUMNS} FROM fee_invoice
         WHERE merchant_id = $1 AND month = $2 AND currency = $3
         ORDER BY revision DESC LIMIT 1""",
        *(merchant_id, month, currency),
    )
    return None if record is None else read(record)


async def lock_series(connection: Connection, prefix: str) -> None:
    """Lets only one transaction at a time issue invoices of a series."""
    await connection.execute(
        "INSERT INTO invoice_series (prefix) VALUES ($1) ON CONFLICT DO NOTHING", prefix
    )
    await connection.value("SELECT serial FROM invoice_series WHERE prefix = $1 FOR UPDATE", prefix)


async def next_serial(connection: Connection, prefix: str) -> int:
    """Takes the next number. It is free again if the transaction does not commit."""
    return await connection.number(
        "UPDATE invoice_series SET serial = serial + 1 WHERE prefix = $1 RETURNING serial", prefix
    )


async def insert(connection: Connection, prefix: str, serial: int, row: Invoice) -> Invoice:
    record = await connection.record(
        f"""
        INSERT INTO fee_invoice (merchant_id, number, prefix, serial, month, currency, revision,
                                 amount_minor, lines, supplier, customer, corrects, reason,
                                 issued_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10::jsonb, $11::jsonb, $12, $13, $14)
        RETURNING {_COLUMNS}""",
        *(row.merchant_id, row.number, prefix, serial, row.month, row.currency, row.revision),
        *(row.amount_minor, *(msgspec.json.encode(getattr(row, name)).decode() for name in _JSON)),
        *(row.corrects, row.reason, row.issued_by),
    )
    return read(record)


async def set_reference(
    connection: Connection, invoice: Invoice, reference: str, qr: str | None
) -> None:
    await connection.execute(
        """
        UPDATE fee_invoice SET authority_reference = $3, authority_qr = $4
         WHERE merchant_id = $1 AND number = $2""",
        *(invoice.merchant_id, invoice.number, reference, qr),
    )


async def recipient(db: Database | Connection, merchant_id: int) -> Party:
    """Returns to whom the merchant's next invoice is addressed."""
    found = await db.row(
        Party,
        """
        SELECT coalesce(r.name, nullif(d.legal_name, ''), m.name) AS name,
               coalesce(r.address, d.address, '') AS address, coalesce(r.tax_id, '') AS tax_id,
               m.email
          FROM merchant m
          LEFT JOIN invoice_recipient r ON r.merchant_id = m.id
          LEFT JOIN dossier d ON d.merchant_id = m.id
         WHERE m.id = $1""",
        merchant_id,
    )
    assert found is not None
    return found


async def set_recipient(connection: Connection, merchant_id: int, party: Party) -> None:
    await connection.execute(
        """
        INSERT INTO invoice_recipient (merchant_id, name, address, tax_id) VALUES ($1, $2, $3, $4)
            ON CONFLICT (merchant_id) DO UPDATE
           SET name = excluded.name, address = excluded.address, tax_id = excluded.tax_id,
               updated_at = now()""",
        *(merchant_id, party.name, party.address, party.tax_id),
    )
