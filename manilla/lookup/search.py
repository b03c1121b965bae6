"""Searches transactions by reference, id, email address, account number, name or amount.

The search time does not grow with the number of transactions. Every type of search has an index,
except amounts, names and parts of email addresses, which are compared only with the newest
transactions.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from manilla.kit import amount_input
from manilla.kit.database.rows import Reads, RowSource
from manilla.kit.listing import Conditions
from manilla.kit.listing.sorting import read_as
from manilla.kit.money import Money, MoneyError
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, collation_of, scope_conditions
from manilla.ledger.transaction_lists import IndexedMatch
from manilla.payments import listing as payments
from manilla.payments.payment import Payment
from manilla.payments.store import PAYMENT_COLUMNS
from manilla.payouts import listing as payouts
from manilla.payouts import store as payout_store
from manilla.payouts.payout import Payout
from manilla.payouts.store import PAYOUT_COLUMNS
from manilla.refunds import listing as refunds
from manilla.refunds.refund import Refund
from manilla.refunds.store import REFUND_COLUMNS

HITS_MAX = 5  # maximum number of search results of each type
COMMON_MAX = 1000  # maximum number of rows that a search across all merchants compares
RECENT_ROWS = 5_000  # number of newest rows whose amounts and names are compared
PREFIX_LENGTH_MIN = 3
LAST = "\U0010ffff"  # the character that sorts after all others
AMOUNT, REFERENCE, NAME, EMAIL = "Amount", "Reference", "Name", "Email"
ID_START, ID_START_LENGTH_MIN = "TXN", 6


class HitKind(StrEnum):
    PAYMENT = "payment"
    PAYOUT = "payout"
    REFUND = "refund"
    MERCHANT = "merchant"
    PERSON = "person"
    CASE = "case"
    NOTIFICATION = "notification"
    REQUEST = "request"


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    kind: HitKind
    id: str
    title: str
    field: str  # label of the field that matched
    value: str  # the value of this field
    merchant_id: int | None = None
    environment: str | None = None
    status: str | None = None
    amount: Money | None = None
    created_at: datetime | None = None


class _Searched(msgspec.Struct, frozen=True):
    """A transaction table, and the columns to search."""

    kind: HitKind
    table: str
    columns: str
    matches: Callable[[Scope, str], list[IndexedMatch]]
    read: Callable[[Any], Payment | Payout | Refund]
    has_reference: bool = True
    name: str | None = None  # the column with a person's name, or None
    email: str | None = None  # the column with a person's email address, or None


_SEARCHED = (
    _Searched(
        HitKind.PAYMENT,
        "payment",
        PAYMENT_COLUMNS,
        payments.matches,
        read_as(Payment),
        name="customer_name",
        email="customer_email",
    ),
    _Searched(
        HitKind.PAYOUT,
        "payout",
        PAYOUT_COLUMNS,
        payouts.matches,
        payout_store.read,
        name="account_name",
    ),
    _Searched(
        HitKind.REFUND,
        "refund",
        REFUND_COLUMNS,
        lambda _scope, text: refunds.matches(text),
        read_as(Refund),
        has_reference=False,
    ),
)


class _Arm(msgspec.Struct, frozen=True):
    """One of the searches that run in a table."""

    table: int  # index in _SEARCHED
    label: str
    sql: str


async def transactions(
    db: Reads, scope: Scope, text: str, currencies: Iterable[str]
) -> list[SearchHit]:
    """Returns the newest matching transactions, exact matches of an id or value first."""
    arms, conditions = _arms(scope, text, _amounts(text, currencies))
    if not arms:
        return []
    async with db.by_key() as connection:
        found = await _fields(connection, arms, conditions)
        return [
            _hit(searched.kind, row, fields[row.trx_id], text)
            for searched, fields in zip(_SEARCHED, found, strict=True)
            for row in await _rows(connection, searched, list(fields))
        ]


def exact_first(hits: Sequence[SearchHit], text: str) -> list[SearchHit]:
    """Sorts search results by kind. A result whose id equals the text comes first."""
    kinds = list(HitKind)
    return sorted(hits, key=lambda hit: (hit.id != text, kinds.index(hit.kind)))


def _arms(scope: Scope, text: str, amounts: Sequence[Money]) -> tuple[list[_Arm], Conditions]:
    """Returns the searches for this text, and their SQL parameters."""
    conditions = scope_conditions(scope)
    is_id = trx_ids.merchant_of(text.partition("-")[0]) is not None
    is_prefix = scope.merchant_id is not None and len(text) >= PREFIX_LENGTH_MIN
    arms = []
    for place, searched in enumerate(_SEARCHED):
        table = searched.table
        for match in searched.matches(scope, text):
            if is_prefix and match.label == REFERENCE:
                sql = _prefix_arm(table, conditions.branch(), text)
            else:
                sql = _arm(table, scope, conditions.branch(), match)
            arms.append(_Arm(place, match.label, sql))
        if searched.has_reference and amounts and not is_id:
            arms.append(_Arm(place, AMOUNT, _amount_arm(table, scope, conditions, amounts)))
        if _is_start_of_id(text) and not is_id:
            sql = _id_arm(table, scope, conditions.branch(), text.upper())
            arms.append(_Arm(place, "Transaction ID", sql))
        elif searched.name and _is_name(text) and not is_id:
            sql = _part_arm(table, scope, conditions, searched.name, text)
            arms.append(_Arm(place, NAME, sql))
        if searched.email and is_prefix and not is_id:
            sql = _email_arm(table, conditions.branch(), searched.email, text)
            arms.append(_Arm(place, EMAIL, sql))
        if searched.email and "@" in text:
            sql = _part_arm(table, scope, conditions, searched.email, text)
            arms.append(_Arm(place, EMAIL, sql))
    return arms, conditions


def _arm(table: str, scope: Scope, conditions: Conditions, match: IndexedMatch) -> str:
    wanted = conditions.add(match.sql, *match.values).sql
    if match.is_common and scope.merchant_id is not None:
        return f"SELECT trx_id FROM {table} WHERE {wanted} ORDER BY trx_id DESC LIMIT {HITS_MAX}"
    # Without the inner limit, the planner would read the rows in the order of their ids.
    found = f"SELECT trx_id FROM {table} WHERE {wanted} LIMIT {COMMON_MAX}"
    return f"SELECT trx_id FROM ({found}) AS found ORDER BY trx_id DESC LIMIT {HITS_MAX}"


def _prefix_arm(table: str, conditions: Conditions, text: str) -> str:
    """Finds a merchant's references that start with the text."""
    wanted = conditions.add("ref_trx >= {} AND ref_trx < {}", text, text + LAST).sql
    return f"SELECT trx_id FROM {table} WHERE {wanted} ORDER BY ref_trx LIMIT {HITS_MAX}"


def _is_start_of_id(text: str) -> bool:
    return text.upper().startswith(ID_START) and len(text) >= ID_START_LENGTH_MIN


def _is_name(text: str) -> bool:
    return len(text) >= PREFIX_LENGTH_MIN and text[0].isalpha() and "@" not in text


def _id_arm(table: str, scope: Scope, conditions: Conditions, text: str) -> str:
    """Finds the newest ids that start with the text."""
    key = f"trx_id{collation_of(scope)}"
    wanted = conditions.add(f"{key} >= {{}} AND {key} < {{}}", text, text + LAST).sql
    return f"SELECT trx_id FROM {table} WHERE {wanted} ORDER BY {key} DESC LIMIT {HITS_MAX}"


def _email_arm(table: str, conditions: Conditions, column: str, text: str) -> str:
    """Finds a merchant's newest payments whose email address starts with the text."""
    key = f"coalesce(lower({column}), '') COLLATE \"C\""
    is_given = f"coalesce({column}, '') <> ''"
    between = f"{key} >= lower({{}}) AND {key} < lower({{}}) || {{}} AND {is_given}"
    wanted = conditions.add(between, text, text, LAST).sql
    # Only the index has this order, so the planner does not read the rows by another index.
    found = f"SELECT trx_id FROM {table} WHERE {wanted} ORDER BY {key} LIMIT {COMMON_MAX}"
    return f"SELECT trx_id FROM ({found}) AS found ORDER BY trx_id DESC LIMIT {HITS_MAX}"


def _part_arm(table: str, scope: Scope, conditions: Conditions, column: str, text: str) -> str:
    """Searches for part of a name or an email address in the newest rows."""
    wanted = conditions.value(text)
    return f"""
        SELECT trx_id
          FROM (SELECT trx_id, {column} AS whole FROM {table} WHERE {conditions.sql}
                 ORDER BY trx_id{collation_of(scope)} DESC LIMIT {RECENT_ROWS}) AS recent
         WHERE position(lower({wanted}) IN lower(whole)) > 0
         LIMIT {HITS_MAX}"""


def _amount_arm(table: str, scope: Scope, conditions: Conditions, amounts: Sequence[Money]) -> str:
    currencies = conditions.value([amount.currency for amount in amounts])
    minor = conditions.value([amount.minor for amount in amounts])
    return f"""
        SELECT trx_id
          FROM (SELECT trx_id, currency, amount_minor FROM {table} WHERE {conditions.sql}
                 ORDER BY trx_id{collation_of(scope)} DESC LIMIT {RECENT_ROWS}) AS recent
         WHERE (currency, amount_minor) IN
               (SELECT * FROM unnest({currencies}::text[], {minor}::bigint[]))
         LIMIT {HITS_MAX}"""


async def _fields(
    db: RowSource, arms: Sequence[_Arm], conditions: Conditions
) -> list[dict[str, str]]:
    """Returns, for each table, the found ids with the label of the matching field.

    One SQL statement finds all ids and returns them as one value. If only one row is read,
    PostgreSQL starts no parallel workers. Starting them would take longer than the search.
    """
    union = " UNION ALL ".join(
        f"(SELECT {place} AS arm, a.* FROM ({arm.sql}) a)" for place, arm in enumerate(arms)
    )
    found: list[str] = await db.value(
        f"SELECT array(SELECT arm || ' ' || trx_id FROM ({union}) AS found ORDER BY arm)",
        *conditions.values,
    )
    fields: list[dict[str, str]] = [{} for _ in _SEARCHED]
    for each in found:
        place, _, trx_id = each.partition(" ")
        arm = arms[int(place)]
        if len(fields[arm.table]) < HITS_MAX:
            fields[arm.table].setdefault(trx_id, arm.label)
    return fields


async def _rows(
    db: RowSource, searched: _Searched, trx_ids_found: list[str]
) -> list[Payment | Payout | Refund]:
    """Reads the rows with these ids by their full key, in the same order."""
    if not trx_ids_found:
        return []
    records = await db.records(
        f"""
        SELECT {searched.columns} FROM {searched.table}
         WHERE (merchant_id, trx_id) IN (SELECT * FROM unnest($1::bigint[], $2::text[]))""",
        [trx_ids.merchant_of(each) for each in trx_ids_found],
        trx_ids_found,
    )
    rows = map(searched.read, records)
    return sorted(rows, key=lambda row: trx_ids_found.index(row.trx_id))


def _hit(kind: HitKind, row: Payment | Payout | Refund, field: str, text: str) -> SearchHit:
    title = row.trx_id if isinstance(row, Refund) else row.ref_trx or row.trx_id
    email = (row.customer_email if isinstance(row, Payment) else None) or text
    values = {AMOUNT: str(row.amount), REFERENCE: title, NAME: _name(row) or "", EMAIL: email}
    return SearchHit(
        kind=kind,
        id=row.trx_id,
        title=title,
        field=field,
        value=values.get(field, text),
        merchant_id=row.merchant_id,
        environment=row.environment,
        status=row.status,
        amount=row.amount,
        created_at=row.created_at,
    )


def _name(row: Payment | Payout | Refund) -> str | None:
    if isinstance(row, Payment):
        return row.customer_name
    return row.account_name if isinstance(row, Payout) else None


def _amounts(text: str, currencies: Iterable[str]) -> list[Money]:
    """Returns the text as an amount in each currency, or an empty list if it is not an amount."""
    amounts = []
    for currency in currencies:
        try:
            amounts.append(amount_input.parse_amount(text, currency))
        except MoneyError:
            continue
    return amounts
