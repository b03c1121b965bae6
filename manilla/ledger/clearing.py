"""Stores the totals of the clearing accounts, which the function `clearing_totals` reads.

Without the totals, each comparison with a provider's balance would read every ledger entry.
"""

from manilla.kit.database.connections import Connection, Database
from manilla.ledger import final_postings

IDS_MAX = 100_000  # maximum range of posting ids that are added in one transaction


async def totals(db: Database | Connection, account: str) -> dict[str, int]:
    """Returns the sum of a clearing account's production entries in each currency."""
    records = await db.records("SELECT currency, minor FROM clearing_totals($1)", account)
    return {record["currency"]: record["minor"] for record in records}


async def add_final_postings(db: Database) -> None:
    head = "SELECT last_id FROM clearing_total_head FOR UPDATE SKIP LOCKED"
    await final_postings.add(db, head, IDS_MAX, _add_range)


async def _add_range(connection: Connection, after: int, until: int) -> None:
    await connection.execute(
        """
        INSERT INTO clearing_total AS total (account, environment, currency, minor)
        SELECT e.account, e.environment, e.currency, sum(e.amount_minor)
          FROM posting p
         CROSS JOIN LATERAL (
               SELECT * FROM entry
                WHERE entry.merchant_id = p.merchant_id AND entry.posting_id = p.id
                  AND starts_with(entry.account, 'clearing:')
               OFFSET 0) AS e
         WHERE p.id > $1 AND p.id <= $2 AND NOT lives_elsewhere(p.merchant_id)
         GROUP BY e.account, e.environment, e.currency
            ON CONFLICT (account, environment, currency) DO UPDATE
           SET minor = total.minor + excluded.minor""",
        *(after, until),
    )
    await connection.execute("UPDATE clearing_total_head SET last_id = $1", until)


async def add_merchant(connection: Connection, merchant_id: int, sign: int) -> None:
    """Adds a merchant's entries to the totals when it moves to this cell, or subtracts them.

    `sign` is 1 or -1. The merchant's fence must change in the same transaction. Entries of later
    postings than those in the totals are added later, if the merchant lives here.
    """
    last_id = await connection.number("SELECT last_id FROM clearing_total_head FOR UPDATE")
    await connection.execute(
        """
        INSERT INTO clearing_total AS total (account, environment, currency, minor)
        SELECT account, environment, currency, $3 * sum(amount_minor)
          FROM entry
         WHERE merchant_id = $1 AND posting_id <= $2 AND starts_with(account, 'clearing:')
         GROUP BY account, environment, currency
            ON CONFLICT (account, environment, currency) DO UPDATE
           SET minor = total.minor + excluded.minor""",
        *(merchant_id, last_id, sign),
    )
