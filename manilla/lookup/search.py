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

from manilla.disputes import listing as disputes
from manilla.kit import amount_input
from manilla.kit.database.rows import Reads, RowSource
from manilla.kit.listing import Conditions
from manilla.kit.money import Money, MoneyError
from manilla.ledger import transaction_lists
from manilla.ledger.scope import Scope, collation_of, scope_conditions
from manilla.ledger.transaction_lists import IndexedMatch
from manilla.lookup.find import owner_of
from manilla.payments import listing as payments
from manilla.payouts import listing as payouts
from manilla.refunds import listing as refunds
from manilla.transaction_types import DISPUTE, PAYMENT, PAYOUT, REFUND, TYPES, TransactionType

HITS_MAX = 5  # maximum number of search results of each type
COMMON_MAX = 1000  # maximum number of rows that a search across all merchants compares
RECENT_ROWS = 5_000  # number of newest rows whose amounts and names are compared
PREFIX_LENGTH_MIN = 3
LAST = "\U0010ffff"  # the character that sorts after all others
AMOUNT, REFERENCE, NAME, EMAIL = "Amount", "Reference", "Name", "Email"
ID_STARTS, ID_START_LENGTH_MIN = ("TXN", "DSP"), 6


class HitKind(StrEnum):
    """The kinds of results that are not transactions. Results are sorted by kind."""

    MERCHANT = "merchant"
    CUSTOMER = "customer"
    PERSON = "person"
    CASE = "case"
    NOTIFICATION = "notification"
    REQUEST = "request"


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    kind: str  # the name of a type of transaction, or a HitKind
    id: str
    title: str
    field: str  # label of the field that matched
    value: str  # the value of this field
    merchant_id: int | None = None
    environment: str | None = None
    status: str | None = None
    amount: Money | None = None
    created_at: datetime | None = None


# Searches by values that only some types have. Other types are searched by id and reference.
_MATCHES: dict[TransactionType, Callable[[Scope, str], list[IndexedMatch]]] = {
    PAYMENT: payments.matches,
    PAYOUT: payouts.matches,
    REFUND: lambda _scope, text: refunds.matches(text),
    DISPUTE: lambda _scope, text: disputes.matches(text),
}


class _Arm(msgspec.Struct, frozen=True):
    """One of the searches that run in a table."""

    table: int  # index in TYPES
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
            _hit(kind, row, fields[row["trx_id"]], text)
            for kind, fields in zip(TYPES, found, strict=True)
            for row in await _rows(connection, kind, list(fields))
        ]


def exact_first(hits: Sequence[SearchHit], text: str) -> list[SearchHit]:
    """Sorts search results by kind. A result whose id equals the text comes first."""
    kinds = [*(each.name for each in TYPES), *HitKind]
    return sorted(hits, key=lambda hit: (hit.id != text, kinds.index(hit.kind)))


def _arms(scope: Scope, text: str, amounts: Sequence[Money]) -> tuple[list[_Arm], Conditions]:
    """Returns the searches for this text, and their SQL parameters."""
    conditions = scope_conditions(scope)
    is_id = owner_of(text) is not None
    is_prefix = scope.merchant_id is not None and len(text) >= PREFIX_LENGTH_MIN
    arms = []
    for place, kind in enumerate(TYPES):
        table, searched = kind.name, kind.searched
        for match in _MATCHES.get(kind, transaction_lists.matches)(scope, text):
            if is_prefix and match.label == REFERENCE:
                sql = _prefix_arm(table, conditions.branch(), text)
            else:
                sql = _arm(table, scope, conditions.branch(), match)
            arms.append(_Arm(place, match.label, sql))
        if searched.by_reference and amounts and not is_id:
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
    return text.upper().startswith(ID_STARTS) and len(text) >= ID_START_LENGTH_MIN


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
    fields: list[dict[str, str]] = [{} for _ in TYPES]
    for each in found:
        place, _, trx_id = each.partition(" ")
        arm = arms[int(place)]
        if len(fields[arm.table]) < HITS_MAX:
            fields[arm.table].setdefault(trx_id, arm.label)
    return fields


async def _rows(db: RowSource, kind: TransactionType, found: list[str]) -> list[Any]:
    """Reads the rows with these ids by their full key, in the same order."""
    if not found:
        return []
    name, email = kind.searched.name or "NULL", kind.searched.email or "NULL"
    records = await db.records(
        f"""
        SELECT merchant_id, trx_id, environment, ref_trx, currency, amount_minor, status,
               created_at, {name} AS name, {email} AS email
          FROM {kind.name}
         WHERE (merchant_id, trx_id) IN (SELECT * FROM unnest($1::bigint[], $2::text[]))""",
        [owner_of(each) for each in found],
        found,
    )
    return sorted(records, key=lambda row: found.index(row["trx_id"]))


def _hit(kind: TransactionType, row: Any, field: str, text: str) -> SearchHit:
    trx_id, amount = row["trx_id"], Money(row["currency"], row["amount_minor"])
    title = (row["ref_trx"] if kind.searched.by_reference else None) or trx_id
    values = {
        AMOUNT: str(amount),
        REFERENCE: title,
        NAME: row["name"] or "",
        EMAIL: row["email"] or text,
    }
    return SearchHit(
        kind=kind.name,
        id=trx_id,
        title=title,
        field=field,
        value=values.get(field, text),
        merchant_id=row["merchant_id"],
        environment=row["environment"],
        status=row["status"],
        amount=amount,
        created_at=row["created_at"],
    )


def _amounts(text: str, currencies: Iterable[str]) -> list[Money]:
    """Returns the text as an amount in each currency, or an empty list if it is not an amount."""
    amounts = []
    for currency in currencies:
        try:
            amounts.append(amount_input.parse_amount(text, currency))
        except MoneyError:
            continue
    return amounts
