"""SQL queries for customers."""

from typing import Annotated

import msgspec

from manilla.customers.customer import (
    CUSTOMER_IDS,
    ERASED_NAME,
    CustomerNotFound,
    CustomerRow,
    CustomerStatus,
    CustomerTerms,
)
from manilla.kit import listing
from manilla.kit.database.connections import Connection
from manilla.kit.database.rows import Reads, RowSource, columns
from manilla.kit.listing import PAGE_ROWS, Conditions, Page
from manilla.kit.listing.sorting import (
    KeyIndex,
    RecordFilter,
    Selection,
    SortKeys,
    SortOrder,
    Totals,
    read_as,
)
from manilla.ledger import transaction_lists
from manilla.ledger.scope import Scope, Tenant, collation_of, merchant_condition, scope_conditions
from manilla.ledger.transaction_lists import IndexedMatch

COLUMNS = columns(CustomerRow)
_CUSTOMER = f"SELECT {COLUMNS} FROM customer"
_ORDERS = {
    **transaction_lists.newest_by("id", CUSTOMER_IDS),
    SortOrder.NAME: SortKeys(
        ("name", "id"),
        tuple[str, Annotated[str, msgspec.Meta(pattern=CUSTOMER_IDS.pattern)]],
        False,
    ),
}
# What a person may know about a customer: also the number of an account.
_MATCHES = """
    (reference = {} OR lower(email) = lower({}) OR phone = {} OR id = {}
     OR position(lower({}) IN lower(name)) > 0
     OR (merchant_id, id) IN (
         SELECT a.merchant_id, a.customer_id FROM customer_account a WHERE a.account_number = {})
     OR (merchant_id, environment, reference) IN (
         SELECT p.merchant_id, p.environment, p.customer_reference FROM payment p
          WHERE p.payer->>'session_id' = {}))"""

_ACCOUNT = (
    "(merchant_id, id) IN"
    " (SELECT merchant_id, customer_id FROM customer_account WHERE account_number = {})"
)
_SESSION = (
    "(merchant_id, environment, reference) IN (SELECT merchant_id, environment,"
    " customer_reference FROM payment WHERE payer->>'session_id' = {})"
)
# The indexes start with the merchant, whom a search of all merchants does not know.
_EVERY_MERCHANT = "merchant_id IN (SELECT id FROM merchant)"
_REFERENCE = f"{_EVERY_MERCHANT} AND environment IN ('sandbox', 'production') AND reference = {{}}"
_EMAIL = f"{_EVERY_MERCHANT} AND lower(email) = lower({{}})"


class CustomerFilter(RecordFilter, frozen=True, kw_only=True):
    status: CustomerStatus | None = None


async def customer(db: RowSource, merchant_id: int, customer_id: str) -> CustomerRow | None:
    return await db.row(
        CustomerRow, _CUSTOMER + " WHERE merchant_id = $1 AND id = $2", merchant_id, customer_id
    )


def matches(text: str) -> list[IndexedMatch]:
    """Returns SQL conditions, supported by indexes, for customers with exactly this value."""
    found = [IndexedMatch("Reference", _REFERENCE, (text,))]
    if "@" in text:
        found.append(IndexedMatch("Email", _EMAIL, (text,)))
    if text.isascii() and text.isdigit():
        found.append(IndexedMatch("Account number", _ACCOUNT, (text,)))
        found.append(IndexedMatch("Session ID", _SESSION, (text,)))
    return found


async def matching(db: RowSource, wanted: Conditions, at_most: int) -> list[CustomerRow]:
    return await db.rows(
        CustomerRow, f"{_CUSTOMER} WHERE {wanted.sql} LIMIT {at_most}", *wanted.values
    )


async def newest_like(
    db: RowSource, wanted: Conditions, collation: str, newest: int, text: str, at_most: int
) -> list[CustomerRow]:
    """Compares the text with parts of names and email addresses, and with phone numbers.

    Only this number of newest customers is compared, because no index supports the comparison.
    """
    like = wanted.value(text)
    return await db.rows(
        CustomerRow,
        f"""
        SELECT {COLUMNS}
          FROM (SELECT {COLUMNS} FROM customer WHERE {wanted.sql}
                 ORDER BY id{collation} DESC LIMIT {newest}) AS recent
         WHERE position(lower({like}) IN lower(name)) > 0 OR phone = {like}
            OR position(lower({like}) IN lower(email)) > 0
         LIMIT {at_most}""",
        *wanted.values,
    )


async def find(
    db: RowSource, tenant: Tenant, reference: str, *, lock: bool = False
) -> CustomerRow | None:
    return await db.row(
        CustomerRow,
        _CUSTOMER
        + " WHERE merchant_id = $1 AND environment = $2 AND reference = $3"
        + (" FOR NO KEY UPDATE" if lock else ""),
        *(tenant.merchant_id, tenant.environment, reference),
    )


async def of_tenant(
    db: RowSource, tenant: Tenant, reference: str, *, lock: bool = False
) -> CustomerRow:
    """Returns the customer. One of another merchant or environment is unknown."""
    found = await find(db, tenant, reference, lock=lock)
    if found is None:
        raise CustomerNotFound
    return found


async def insert(
    connection: Connection,
    tenant: Tenant,
    customer_id: str,
    reference: str,
    terms: CustomerTerms,
    bvn_sealed: bytes | None,
    nin_sealed: bytes | None,
) -> CustomerRow | None:
    """Returns the new customer, or None if the reference was used before.

    A concurrent request with the same reference waits here until the first one has ended.
    """
    return await connection.row(
        CustomerRow,
        f"""
        INSERT INTO customer (merchant_id, id, environment, reference, bvn_sealed, nin_sealed,
                              name, email, phone, ipn_url)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (merchant_id, environment, reference) DO NOTHING
        RETURNING {COLUMNS}""",
        *(tenant.merchant_id, customer_id, tenant.environment, reference, bvn_sealed, nin_sealed),
        *(terms.name, terms.email, terms.phone, terms.ipn_url),
    )


async def update(
    connection: Connection,
    before: CustomerRow,
    terms: CustomerTerms,
    bvn_sealed: bytes | None,
    nin_sealed: bytes | None,
) -> CustomerRow:
    """Writes what the merchant can change. The caller has locked the row."""
    changed = await connection.row(
        CustomerRow,
        f"""
        UPDATE customer SET name = $3, email = $4, phone = $5, ipn_url = $6, bvn_sealed = $7,
                            nin_sealed = $8, updated_at = now()
         WHERE merchant_id = $1 AND id = $2
        RETURNING {COLUMNS}""",
        *(before.merchant_id, before.id, terms.name, terms.email, terms.phone, terms.ipn_url),
        *(bvn_sealed, nin_sealed),
    )
    assert changed is not None
    return changed


async def set_disabled(
    connection: Connection, before: CustomerRow, *, is_disabled: bool
) -> CustomerRow:
    changed = await connection.row(
        CustomerRow,
        f"""
        UPDATE customer
           SET disabled_at = CASE WHEN $3 THEN coalesce(disabled_at, now()) END,
               updated_at = CASE WHEN (disabled_at IS NOT NULL) = $3 THEN updated_at ELSE now() END
         WHERE merchant_id = $1 AND id = $2
        RETURNING {COLUMNS}""",
        *(before.merchant_id, before.id, is_disabled),
    )
    assert changed is not None
    return changed


async def erase(connection: Connection, before: CustomerRow) -> CustomerRow:
    """Removes the personal data, and disables the customer. The caller has locked the row."""
    changed = await connection.row(
        CustomerRow,
        f"""
        UPDATE customer
           SET name = '{ERASED_NAME}', email = NULL, phone = NULL, bvn_sealed = NULL,
               nin_sealed = NULL, ipn_url = '', disabled_at = coalesce(disabled_at, now()),
               erased_at = coalesce(erased_at, now()), updated_at = now()
         WHERE merchant_id = $1 AND id = $2
        RETURNING {COLUMNS}""",
        *(before.merchant_id, before.id),
    )
    assert changed is not None
    return changed


async def customers(
    db: Reads,
    scope: Scope,
    wanted: CustomerFilter,
    *,
    after: str | None = None,
    limit: int = PAGE_ROWS,
) -> Page[CustomerRow]:
    steps = selection(scope, wanted)
    return await steps.page(db, read_as(CustomerRow), wanted.sort, after, limit)


async def count(db: Reads, scope: Scope, wanted: CustomerFilter) -> Totals:
    return await selection(scope, wanted).count(db)


def selection(scope: Scope, wanted: CustomerFilter) -> Selection:
    key = f"id{collation_of(scope)}"
    is_disabled = None if wanted.status is None else wanted.status is CustomerStatus.DISABLED
    conditions = (
        scope_conditions(scope)
        .add_given("(disabled_at IS NOT NULL) = {}", is_disabled)
        .add_given(f"{key} >= {{}}", wanted.since and CUSTOMER_IDS.floor(wanted.since))
        .add_given(f"{key} < {{}}", wanted.until and CUSTOMER_IDS.floor(wanted.until))
    )
    text = listing.search_text(wanted.search)
    if text is not None:
        conditions.add(_MATCHES, *[text] * _MATCHES.count("{}"))
    bounds = transaction_lists.id_bounds(wanted.since, wanted.until, CUSTOMER_IDS)
    index = KeyIndex(merchant_condition(scope), bounds, collation_of(scope))
    return Selection("customer", COLUMNS, _ORDERS, conditions, index)
