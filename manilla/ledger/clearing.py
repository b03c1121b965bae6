"""Stores the totals of the clearing accounts, which the function `clearing_totals` reads.

Without the totals, each comparison with a provider's balance would read every ledger entry.
"""

from manilla.kit.database.connections import SET_BY_KEY, Connection, Database

IDS_MAX = 100_000  # maximum range of posting ids that are added in one transaction


async def totals(db: Database | Connection, account: str) -> dict[str, int]:
    """Returns the sum of a clearing account's production entries in each currency."""
    records = await db.records("SELECT currency, minor FROM clearing_totals($1)", account)
    return {record["currency"]: record["minor"] for record in records}


async def add_final_postings(db: Database) -> None:
    """Adds the postings that the hash chain covers, because no earlier posting can follow."""
    while await _add_some(db):
        pass


async def _add_some(db: Database) -> bool:
    """Adds one range of postings. Returns False if none is left, or another worker adds them."""
    async with db.transaction() as connection:
        await connection.execute(SET_BY_KEY)
        last_id: int | None = await connection.value(
            "SELECT last_id FROM clearing_total_head FOR UPDATE SKIP LOCKED"
        )
        final_id: int = await connection.value("SELECT last_id FROM posting_chain_head")
        if last_id is None or last_id >= final_id:
            return False
        until = min(final_id, last_id + IDS_MAX)
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
            *(last_id, until),
        )
        await connection.execute("UPDATE clearing_total_head SET last_id = $1", until)
    return True


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
