"""Saves the totals of days with an imported provider statement, after each comparison.

Sums over many rows are MATERIALIZED, because the planner would otherwise compute them for each day.
"""

from manilla.kit.database.connections import Connection
from manilla.ledger import posting
from manilla.providers.checks import references
from manilla.reconciliation import movements
from manilla.reconciliation.matching import OPEN_SIDES

# Selects the days of account $1 that were imported in the last 24 hours or have unmatched items.
# Each row contains the start of the day and the start of the next day.
DAYS = """
    SELECT currency, day, kinds, ledger_at, day::timestamp AT TIME ZONE 'Africa/Lagos' AS start,
           (day + 1)::timestamp AT TIME ZONE 'Africa/Lagos' AS next_start
      FROM statement_day
     WHERE provider = $1
       AND (imported_at > now() - interval '1 day' OR open_lines + open_movements > 0)"""

SAME_DAY = "changed.provider = $1 AND changed.currency = d.currency AND changed.day = d.day"
IS_CHECK = f"starts_with(trx_id, '{references.PREFIX}')"
IN_DAY = (
    "provider = $1 AND currency = d.currency AND booked_at >= d.start AND booked_at < d.next_start"
)


async def store(connection: Connection, provider: str) -> None:
    """Saves the totals of all days that may have changed."""
    await _store_lines(connection, provider)
    await _store_provider_balance(connection, provider)
    await _store_movements(connection, provider)
    await _store_ledger_balance(connection, provider)
    # This call changes which days the other SQL statements select, so it must be last.
    await _store_unmatched(connection, provider)


async def _store_lines(connection: Connection, provider: str) -> None:
    """Saves the number and sum of a day's statement lines, and of the lines from account tests."""
    await connection.execute(
        f"""
        UPDATE statement_day changed
           SET lines = found.lines, lines_minor = found.minor,
               checks = found.checks, checks_minor = found.checks_minor
          FROM ({DAYS}) AS d
         CROSS JOIN LATERAL (
               SELECT count(*) AS lines, coalesce(sum(amount_minor), 0) AS minor,
                      count(*) FILTER (WHERE {IS_CHECK}) AS checks,
                      coalesce(sum(amount_minor) FILTER (WHERE {IS_CHECK}), 0)
                          AS checks_minor
                 FROM statement_line WHERE {IN_DAY}) AS found
         WHERE {SAME_DAY}""",
        provider,
    )


async def _store_provider_balance(connection: Connection, provider: str) -> None:
    """Saves the provider's balance after a day's last statement line, if the line contains it."""
    await connection.execute(
        f"""
        UPDATE statement_day changed
           SET balance_minor = (
               SELECT balance_after_minor FROM statement_line WHERE {IN_DAY}
                ORDER BY booked_at DESC, length(line_id) DESC, line_id DESC LIMIT 1)
          FROM ({DAYS}) AS d WHERE {SAME_DAY}""",
        provider,
    )


async def _store_movements(connection: Connection, provider: str) -> None:
    """Saves the count and sum of a day's ledger movements of the kinds that the statement lists."""
    await connection.execute(
        f"""
        UPDATE statement_day changed
           SET movements = found.movements, movements_minor = found.minor
          FROM ({DAYS}) AS d
         CROSS JOIN LATERAL (
               SELECT count(*) AS movements, coalesce(sum(amount_minor), 0) AS minor
                 FROM clearing_movement WHERE {IN_DAY} AND kind = ANY (d.kinds)) AS found
         WHERE {SAME_DAY}""",
        provider,
    )


async def _store_ledger_balance(connection: Connection, provider: str) -> None:
    """Saves our balance at the end of a day: the current balance minus later postings.

    A day's balance is final an hour after the day's end, because a posting may commit later than
    its timestamp. It is not computed again, so that a day with an old unmatched item does not make
    each comparison read all postings since that day. One statement computes both sums: with two
    snapshots, a posting that commits in between would only be subtracted.
    """
    await connection.execute(
        f"""
        WITH days AS (
            SELECT * FROM ({DAYS}) AS d
             WHERE ledger_at IS NULL OR ledger_at <= next_start + $3::interval),
        current AS MATERIALIZED (
            SELECT currency, -minor AS minor FROM clearing_totals($2)),
        posted AS MATERIALIZED (
            SELECT e.currency, (p.posted_at AT TIME ZONE 'Africa/Lagos')::date AS day,
                   -sum(e.amount_minor) AS minor
              FROM posting p
             CROSS JOIN LATERAL (
                   SELECT entry.currency, entry.amount_minor FROM entry
                    WHERE entry.merchant_id = p.merchant_id AND entry.posting_id = p.id
                      AND entry.account = $2
                   OFFSET 0) AS e
             WHERE p.posted_at >= (SELECT min(next_start) FROM days)
               AND p.environment = 'production' AND NOT lives_elsewhere(p.merchant_id)
             GROUP BY 1, 2)
        UPDATE statement_day changed
           SET ledger_minor = coalesce((SELECT minor FROM current WHERE currency = d.currency), 0)
                            - coalesce((SELECT sum(minor) FROM posted
                                         WHERE currency = d.currency AND posted.day > d.day), 0),
               ledger_at = now()
          FROM days d WHERE {SAME_DAY}""",
        *(provider, posting.clearing(provider), movements.OVERLAP),
    )


async def _store_unmatched(connection: Connection, provider: str) -> None:
    """Saves how many statement lines and ledger movements of a day are unmatched."""
    await connection.execute(
        f"""{OPEN_SIDES},
        counted AS MATERIALIZED (
            SELECT currency, (booked_at AT TIME ZONE 'Africa/Lagos')::date AS day, kind,
                   count(theirs) AS lines, count(ours) AS movements
              FROM sides GROUP BY 1, 2, 3)
        UPDATE statement_day changed
           SET open_lines = found.lines, open_movements = found.movements
          FROM ({DAYS}) AS d
         CROSS JOIN LATERAL (
               SELECT coalesce(sum(lines), 0) AS lines,
                      coalesce(sum(movements) FILTER (WHERE kind = ANY (d.kinds)), 0) AS movements
                 FROM counted WHERE currency = d.currency AND day = d.day) AS found
         WHERE {SAME_DAY}""",
        provider,
    )
