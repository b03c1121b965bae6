"""Rules that the ledger must always satisfy, each with a query that finds violations."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.ledger.posting import ACCOUNTS, TAX
from manilla.posting_kinds import PostingFlag, PostingKind, in_sql, kinds_with

EXAMPLES_MAX = 5
# PostgreSQL's `work_mem`, for joining the postings and entries of a long history.
WORK_MEMORY = "64MB"


class Invariant(msgspec.Struct, frozen=True):
    name: str
    promise: str
    violations: str  # an SQL query for violations, which must return no rows


class Finding(msgspec.Struct, frozen=True):
    name: str
    promise: str
    count: int  # number of rows that violate the rule
    examples: list[Any]


LEDGER: tuple[Invariant, ...] = (
    Invariant(
        "entries_sum_to_zero",
        "All entries of an environment and currency sum to zero.",
        """SELECT environment, currency, sum(amount_minor) AS sum FROM entry
            GROUP BY environment, currency HAVING sum(amount_minor) <> 0""",
    ),
    Invariant(
        "postings_sum_to_zero",
        "Each posting has at least two entries, and they sum to zero.",
        """SELECT p.merchant_id, p.id, coalesce(e.sum, 0) AS sum, coalesce(e.entries, 0) AS entries
             FROM posting p
             LEFT JOIN (SELECT merchant_id, posting_id, sum(amount_minor) AS sum,
                               count(*) AS entries
                          FROM entry GROUP BY merchant_id, posting_id) AS e
                    ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
            WHERE coalesce(e.sum, 0) <> 0 OR coalesce(e.entries, 0) < 2""",
    ),
    Invariant(
        "entries_have_their_posting",
        "Each entry belongs to a posting.",
        """SELECT e.merchant_id, e.posting_id, e.line FROM entry e
             LEFT JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id
            WHERE p.id IS NULL""",
    ),
    Invariant(
        "accounts_are_known",
        "Each entry is in an account that this version knows.",
        f"""SELECT merchant_id, posting_id, line, account FROM entry
            WHERE account <> ALL ('{{{",".join(sorted(ACCOUNTS))}}}')
              AND NOT (account ^@ 'clearing:' OR account ^@ 'provider_fee:'
                       OR account ^@ '{TAX}')""",
    ),
    Invariant(
        "only_returns_exceed_the_limit",
        "Only the kinds of postings that return money may exceed a wallet's maximum balance.",
        f"""SELECT kind, may_exceed_limit FROM posting_kind
            WHERE kind IN {in_sql(PostingKind)}
              AND may_exceed_limit <> (kind IN {in_sql(kinds_with(PostingFlag.UNLIMITED))})""",
    ),
    Invariant(
        "postings_keep_to_one_environment",
        "No posting mixes environments or currencies.",
        """SELECT e.merchant_id, e.posting_id, e.line, e.environment, e.currency
             FROM entry e
             JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id
            WHERE (e.environment, e.currency) <> (p.environment, p.currency)""",
    ),
    Invariant(
        "wallets_equal_their_entries",
        "The balance of each wallet is the sum of its entries.",
        """SELECT coalesce(w.merchant_id, e.merchant_id) AS merchant_id,
                  coalesce(w.environment, e.environment) AS environment,
                  coalesce(w.currency, e.currency) AS currency, w.balance_minor, e.sum
             FROM wallet w
             FULL JOIN (SELECT merchant_id, environment, currency, sum(amount_minor) AS sum
                          FROM entry WHERE account = 'wallet'
                         GROUP BY merchant_id, environment, currency) AS e
                  USING (merchant_id, environment, currency)
            WHERE w.balance_minor IS DISTINCT FROM coalesce(e.sum, 0)""",
    ),
    Invariant(
        "wallets_are_not_below_zero",
        "No wallet's balance is, or ever was, below zero.",
        """SELECT merchant_id, environment, currency, balance_minor FROM wallet
            WHERE balance_minor < 0
            UNION ALL
           SELECT merchant_id, environment, currency, balance_minor FROM entry
            WHERE balance_minor < 0""",
    ),
    Invariant(
        "wallet_history_is_gapless",
        "Each wallet entry continues from the balance after the previous entry.",
        """SELECT * FROM (
             SELECT merchant_id, environment, currency, posting_id, amount_minor, balance_minor,
                    coalesce(lag(balance_minor) OVER (
                        PARTITION BY merchant_id, environment, currency ORDER BY posting_id), 0)
                    AS before
               FROM entry WHERE account = 'wallet') AS history
            WHERE before + amount_minor <> balance_minor""",
    ),
    Invariant(
        "clearing_totals_equal_their_entries",
        "The stored total of each clearing account is the sum of its entries up to the last "
        "posting in the totals.",
        """SELECT account, environment, currency, t.minor, e.sum
             FROM clearing_total t
             FULL JOIN (SELECT account::text, environment::text, currency::text,
                               sum(amount_minor) AS sum
                          FROM entry
                         WHERE starts_with(account, 'clearing:')
                           AND posting_id <= (SELECT last_id FROM clearing_total_head)
                         GROUP BY account, environment, currency) AS e
                  USING (account, environment, currency)
            WHERE coalesce(t.minor, 0) <> coalesce(e.sum, 0)""",
    ),
)


async def check(
    db: Database, invariants: Sequence[Invariant], *, lock: int | None = None
) -> list[Finding]:
    """Checks all invariants in one snapshot, so that concurrent postings cause no false reports.

    Holds the advisory lock `lock` during the check. Other checks do not wait for it.
    """
    async with db.transaction() as connection:
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        if lock is not None:
            await connection.value("SELECT pg_try_advisory_xact_lock_shared($1)", lock)
        await connection.execute(f"SET LOCAL work_mem = '{WORK_MEMORY}'")
        return [await find(connection, invariant) for invariant in invariants]


async def find(
    connection: Connection,
    invariant: Invariant,
    examples_max: int = EXAMPLES_MAX,
    tables: str = "",
    values: Sequence[Any] = (),
) -> Finding:
    """Finds violations. `tables` is a `WITH` clause that can replace tables by some of their rows.

    `values` are the parameters of this clause. The rules are about the merchants that live here, so
    the copied rows of other merchants are hidden.
    """
    tables = await _hide_copies(connection, invariant.violations, tables)
    rows = await connection.records(
        f"{tables} SELECT count(*) OVER () AS count, to_jsonb(broken) AS row"
        f" FROM ({invariant.violations}) AS broken LIMIT {examples_max}",
        *values,
    )
    count = rows[0]["count"] if rows else 0
    examples = [msgspec.json.decode(row["row"]) for row in rows]
    return Finding(invariant.name, invariant.promise, count, examples)


async def merchants_elsewhere(connection: Connection) -> list[int]:
    """Returns the merchants of which this cell only has a copy."""
    rows = await connection.records(
        "SELECT merchant_id FROM merchant_fence WHERE lives_elsewhere(merchant_id)"
    )
    return [row["merchant_id"] for row in rows]


async def _hide_copies(connection: Connection, sql: str, tables: str) -> str:
    """Returns a `WITH` clause that hides the rows of merchants that live in another cell."""
    elsewhere = await merchants_elsewhere(connection)
    if not elsewhere:
        return tables
    rows = await connection.records(
        """
        SELECT c.relname AS name FROM pg_class c
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'merchant_id'
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
           AND NOT c.relispartition"""
    )
    numbers = ",".join(map(str, elsewhere))
    hidden = [
        f"{row['name']} AS NOT MATERIALIZED (SELECT * FROM public.{row['name']}"
        f" WHERE (merchant_id = ANY ('{{{numbers}}}'::bigint[])) IS NOT TRUE)"
        for row in rows
        if re.search(rf"\b{row['name']}\b", sql)
        and not re.search(rf"\b{row['name']} AS \(", tables)
    ]
    if not hidden:
        return tables
    return f"{tables}, {', '.join(hidden)}" if tables else f"WITH {', '.join(hidden)}"
