"""Searches customers by any of our ids, or by what a person may know about a customer.

As in the search for transactions, names, phone numbers and parts of email addresses are compared
only with the newest rows. Every other type of search has an index.
"""

from manilla.customers import store
from manilla.customers.customer import CustomerRow
from manilla.kit.database.rows import Reads
from manilla.ledger.scope import Scope, collation_of, scope_conditions
from manilla.lookup.find import customer_id_title, customer_of
from manilla.lookup.search import (
    EMAIL,
    HITS_MAX,
    NAME,
    PREFIX_LENGTH_MIN,
    RECENT_ROWS,
    HitKind,
    SearchHit,
)


async def customers(db: Reads, scope: Scope, text: str) -> list[SearchHit]:
    """Returns the matching customers, at most `HITS_MAX` for each type of search."""
    found: dict[str, SearchHit] = {}
    async with db.by_key() as connection:
        if (title := customer_id_title(text)) is not None:
            row = await customer_of(connection, text)
            return [_hit(row, title, text)] if row and _is_in(scope, row) else []
        for match in store.matches(text):
            wanted = scope_conditions(scope).add(match.sql, *match.values)
            rows = await store.matching(connection, wanted, HITS_MAX)
            found |= {row.id: _hit(row, match.label, text) for row in rows if row.id not in found}
        if len(text) >= PREFIX_LENGTH_MIN:
            newest = scope_conditions(scope), collation_of(scope), RECENT_ROWS
            rows = await store.newest_like(connection, *newest, text, HITS_MAX)
            found |= {row.id: _like(row, text) for row in rows if row.id not in found}
    return list(found.values())


def _is_in(scope: Scope, row: CustomerRow) -> bool:
    is_own = scope.merchant_id in (None, row.merchant_id)
    return is_own and scope.environment in (None, row.environment)


def _like(row: CustomerRow, text: str) -> SearchHit:
    if text.lower() in row.name.lower():
        return _hit(row, NAME, row.name)
    return _hit(row, "Phone", text) if row.phone == text else _hit(row, EMAIL, row.email or "")


def _hit(row: CustomerRow, field: str, value: str) -> SearchHit:
    return SearchHit(
        kind=HitKind.CUSTOMER,
        id=row.id,
        title=row.name,
        field=field,
        value=value,
        merchant_id=row.merchant_id,
        environment=row.environment,
        status=row.status,
        created_at=row.created_at,
    )
