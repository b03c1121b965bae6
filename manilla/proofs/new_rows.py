"""Limits the rules of a pack to transactions that are newer than the seal of an earlier pack.

Each text here is a part of a `WITH` clause. It defines a name that hides the table with the same
name, so that the SQL of a rule stays the same for all rows and for new rows.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

import msgspec

from manilla.invoices.invariants import INVOICES
from manilla.kit.clock import LAGOS, start_of_day
from manilla.kit.database.connections import Connection
from manilla.ledger.invariants import merchants_elsewhere
from manilla.ledger.trx_ids import TRX_IDS
from manilla.proofs.access import ACCESS
from manilla.proofs.checks import DECISIONS, DESTINATIONS
from manilla.proofs.verify import Account, Seal
from manilla.transaction_types import TYPES

# A transaction that was open when the seal was made can have rows with an earlier time.
OVERLAP = timedelta(hours=1)

# If more than a tenth of the transactions are new, reading all rows takes less time than looking up
# each new row. A small number is always looked up, because estimates of the tables' sizes may not
# exist yet. $1: time; $2: the number that is always looked up; $3: the divisor for the share.
LOOKED_UP = 1_000, 10
_TABLES = ", ".join(f"'{each.name}'::regclass" for each in TYPES)
FEW_CHANGES = f"""
    SELECT (SELECT count(*) FROM (SELECT FROM timeline WHERE at >= $1 LIMIT most + 1) AS c) <= most
      FROM (SELECT greatest($2, sum(reltuples) / $3)::bigint AS most FROM pg_class
             WHERE oid IN ({_TABLES})) AS share"""
# Rows that have arrived from another cell can be older than the seal, and have lower ids. $1: the
# seal's last link
HAVE_ARRIVED = (
    "SELECT EXISTS (SELECT FROM posting_chain WHERE number > $1 AND merchant_id IS NOT NULL)"
)
FIRST_POSTING = "SELECT min(posted_at) FROM posting WHERE id > $1"


def _union(statements: Iterable[str]) -> str:
    return "".join(f"\n         UNION {each}" for each in statements)


def _other_ids(sql: str) -> str:
    """Returns the union of the statement for each id besides the transactions' own."""
    return _union(
        sql.format(table=each.table, id=each.column) for kind in TYPES for each in kind.ids[1:]
    )


def _children(sql: str) -> str:
    return _union(
        sql.format(table=each.name, parent=each.parent_column) for each in TYPES if each.parent
    )


_CREATED = _union(
    f'SELECT merchant_id, trx_id FROM {each.name} WHERE trx_id COLLATE "C" >= $2' for each in TYPES
)
_POSTED = _other_ids(
    "SELECT t.merchant_id, t.trx_id FROM posted p"
    " JOIN {table} t ON t.merchant_id = p.merchant_id AND t.{id} = p.trx_id"
)
_PARENTS = _children(
    "SELECT t.merchant_id, t.{parent} FROM changed c"
    " JOIN {table} t ON t.merchant_id = c.merchant_id AND t.trx_id = c.trx_id"
)
_CHILDREN = _children(
    "SELECT t.merchant_id, t.trx_id FROM parents p"
    " JOIN {table} t ON t.merchant_id = p.merchant_id AND t.{parent} = p.trx_id"
)
# Selects transactions with a new status, new transactions, and the transactions of new postings.
# $1: time; $2: the lowest new transaction id; $3: the last sealed posting id.
NEW_TRANSACTIONS = f"""
    WITH posted AS MATERIALIZED (SELECT merchant_id, trx_id FROM posting WHERE id > $3),
    changed AS (
        SELECT merchant_id, trx_id FROM timeline WHERE at >= $1 {_CREATED}
         UNION SELECT merchant_id, trx_id FROM posted {_POSTED}),
    parents AS (SELECT merchant_id, trx_id FROM changed {_PARENTS})
    SELECT merchant_id, trx_id FROM parents {_CHILDREN}"""

_NEW = "new AS (SELECT * FROM unnest($1::bigint[], $2::text[]) AS new (merchant_id, trx_id))"
_BALANCES = """
    balance AS (
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[])
                   AS balance (merchant_id, environment, currency, account, amount_minor))"""


def _only_new(table: str, keys: str = "new") -> str:
    """Selects rows by transaction. `OFFSET 0` makes the planner look up each key in the index."""
    return f"""{table} AS (
        SELECT t.* FROM {keys} AS key
         CROSS JOIN LATERAL (SELECT * FROM public.{table} t
                              WHERE t.merchant_id = key.merchant_id AND t.trx_id = key.trx_id
                             OFFSET 0) AS t)"""


_SUBJECTS = f"""(SELECT merchant_id, trx_id FROM new
                  {_other_ids("SELECT merchant_id, {id} FROM {table}")}
                 UNION SELECT merchant_id, trx_id FROM public.posting WHERE id > $3)"""
_ENTRIES = """
    entry AS (
        SELECT t.* FROM posting p
         CROSS JOIN LATERAL (SELECT * FROM public.entry t
                              WHERE t.merchant_id = p.merchant_id AND t.posting_id = p.id
                             OFFSET 0) AS t)"""


_TRANSACTIONS = ",\n".join(
    (
        _NEW,
        *(_only_new(each.name) for each in TYPES),
        *(_only_new(part.table) for each in TYPES for part in each.parts),
        _only_new("posting", _SUBJECTS),
        _ENTRIES,
        "settlement AS (SELECT t.* FROM public.settlement t JOIN new USING (merchant_id, trx_id))",
        """clearing_movement AS (
            SELECT t.* FROM public.clearing_movement t WHERE t.booked_at >= $4::timestamptz)""",
    )
)
_LINKS = f"""{_NEW},
    payment_link AS (
        SELECT t.* FROM public.payment_link t
         WHERE (t.merchant_id, t.id) IN (SELECT p.merchant_id, p.link_id FROM public.payment p
                                           JOIN new USING (merchant_id, trx_id)))"""
# The rules about invoices compare whole months.
_INVOICES = """
    fee_invoice AS (
        SELECT t.* FROM public.fee_invoice t
         WHERE (t.merchant_id, t.month, t.currency) IN (
               SELECT n.merchant_id, n.month, n.currency FROM public.fee_invoice n
                WHERE n.issued_at >= $1))"""
# A day that has new postings is listed as a whole, and so are the days after it.
_DAYS = f"posting AS (SELECT t.* FROM public.posting t WHERE t.posted_at >= $1), {_ENTRIES}"

# These rules compare sums of all entries. The independent program has recomputed the sums.
_OF_SUMS = f"{_BALANCES}, entry AS (SELECT * FROM balance)"
_OF_SUSPENSE = f"""{_BALANCES},
    posting AS (SELECT t.* FROM public.posting t
                 WHERE t.merchant_id IN (SELECT merchant_id FROM balance
                                          WHERE account = 'suspense' AND amount_minor <> 0))"""
SUMS = {
    "in_flight_is_what_is_open": _OF_SUMS,
    "customer_credit_is_what_charges_have": _OF_SUMS,
    "reported_balances_are_within_the_term": _OF_SUMS,
    "suspense_is_within_the_term": _OF_SUSPENSE,
}
# These rules and lists read small tables, or find their rows with an index.
SMALL = (
    "arrivals_are_in_the_audit_log",
    "administrators_movements_were_posted",
    "provider_balances_equal_the_ledger",
    "wallets_are_covered_by_providers",
    "open_transfers_are_within_the_term",
    "notifications_were_kept_for_90_days",
    "merchants_elsewhere_have_moved",
    *(rule.name for rule in (*ACCESS, *DECISIONS, *DESTINATIONS)),
)


class RowLimit(msgspec.Struct, frozen=True):
    """A `WITH` clause that hides tables from a rule, and the values of its parameters."""

    names: str = ""
    values: tuple[Any, ...] = ()

    @property
    def sql(self) -> str:
        return f"WITH {self.names}" if self.names else ""


ALL_ROWS = RowLimit()


def of_balances(name: str, balances: dict[Account, int]) -> RowLimit:
    """Returns the limit for a rule about sums, which reads the recomputed balances instead."""
    rows = [(*account, minor) for account, minor in balances.items()]
    return RowLimit(SUMS[name], tuple(map(list, zip(*rows, strict=True))) or ([],) * 5)


class NewTransactions(msgspec.Struct, frozen=True):
    """The transactions that have changed since a seal."""

    merchant_ids: list[int]
    trx_ids: list[str]
    last_id: int  # the last posting that the seal covers
    since: datetime
    first_day: date | None  # the day of the first new posting, or None if no posting is new

    def limit(self, name: str) -> RowLimit:
        """Returns the limit for the rule or list with this name."""
        if name in SMALL:
            return ALL_ROWS
        if name in (rule.name for rule in INVOICES):
            return RowLimit(_INVOICES, (self.since,))
        if name == "payment_links_count_what_they_earned":
            return RowLimit(_LINKS, (self.merchant_ids, self.trx_ids))
        return RowLimit(_TRANSACTIONS, (self.merchant_ids, self.trx_ids, self.last_id, self.since))

    @property
    def days(self) -> RowLimit:
        """Returns the limit for a list of days: the days with new postings."""
        first = None if self.first_day is None else start_of_day(self.first_day)
        return RowLimit(_DAYS, (first,))


async def find(connection: Connection, seal: Seal) -> NewTransactions | None:
    """Returns the new transactions, or None if all rows must be read.

    All rows must be read if the seal is not that of a pack, if a merchant has arrived from another
    cell since, or if many transactions are new.
    """
    if seal.checked_at is None or await connection.value(HAVE_ARRIVED, seal.number):
        return None
    since = seal.checked_at - OVERLAP
    if not await connection.value(FEW_CHANGES, since, *LOOKED_UP):
        return None
    first = await connection.value(FIRST_POSTING, seal.last_id)
    found = await connection.records(NEW_TRANSACTIONS, *(since, TRX_IDS.floor(since), seal.last_id))
    elsewhere = set(await merchants_elsewhere(connection))
    rows = [row for row in found if row["merchant_id"] not in elsewhere]
    return NewTransactions(
        [row["merchant_id"] for row in rows],
        [row["trx_id"] for row in rows],
        seal.last_id,
        since,
        None if first is None else first.astimezone(LAGOS).date(),
    )
