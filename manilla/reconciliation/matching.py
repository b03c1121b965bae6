"""Matches the lines of statements with the movements of our ledger, all at once.

A transaction matches if its lines and its movements have the same sum. A fee that the provider
lists as a line of its own, and one that it includes in another line, therefore both match.
"""

from datetime import timedelta

from manilla.kit.db import Connection

# How far apart a line and a movement may be if only their amount connects them.
NEAR = timedelta(days=1)


async def match(connection: Connection, provider: str) -> None:
    """Matches all open lines and movements of an account, which the caller has locked."""
    await _find_by_provider_reference(connection, provider)
    await _find_by_amount(connection, provider)
    await _compare(connection, provider)


async def _find_by_provider_reference(connection: Connection, provider: str) -> None:
    """Finds the transactions of lines that name only the provider's own reference."""
    await connection.execute(
        """
        WITH known AS (
            SELECT provider_reference, min(trx_id) AS trx_id FROM clearing_movement
             WHERE provider = $1 AND provider_reference IS NOT NULL
             GROUP BY provider_reference HAVING min(trx_id) = max(trx_id)),
        named AS (
            SELECT DISTINCT ON (l.line_id) l.line_id, k.trx_id
              FROM statement_line l
              JOIN known k ON k.provider_reference IN (l.provider_reference, l.reference)
             WHERE l.provider = $1 AND NOT l.is_matched AND l.trx_id IS NULL
             ORDER BY l.line_id, k.provider_reference = l.provider_reference DESC)
        UPDATE statement_line l SET trx_id = n.trx_id, matched_by = 'provider_reference'
          FROM named n
         WHERE l.merchant_id = 0 AND l.provider = $1 AND l.line_id = n.line_id""",
        provider,
    )


async def _find_by_amount(connection: Connection, provider: str) -> None:
    """Finds the transactions of lines without a reference, where exactly one fits on each side.

    If a line has exactly one transaction near it, and that transaction exactly one line, then the
    two belong together. Counting avoids comparing every line with every transaction.
    """
    await connection.execute(
        """
        WITH ours AS (
            SELECT m.currency, m.trx_id, sum(m.amount_minor) AS amount_minor,
                   min(m.booked_at) AS booked_at, array_agg(m.kind) AS kinds
              FROM clearing_movement m
             WHERE m.provider = $1 AND NOT m.is_matched
               AND NOT EXISTS (SELECT FROM statement_line l
                                WHERE l.provider = $1 AND l.trx_id = m.trx_id)
             GROUP BY m.currency, m.trx_id),
        sides AS (
            SELECT currency, amount_minor, booked_at, true AS is_line, line_id AS key,
                   ARRAY[kind] AS kinds
              FROM statement_line WHERE provider = $1 AND NOT is_matched AND trx_id IS NULL
             UNION ALL
            SELECT currency, amount_minor, booked_at, false, trx_id, kinds FROM ours),
        counted AS (
            SELECT *,
                   count(*) FILTER (WHERE is_line) OVER near AS lines,
                   count(*) FILTER (WHERE NOT is_line) OVER near AS transactions
              FROM sides
            WINDOW near AS (PARTITION BY currency, amount_minor ORDER BY booked_at
                            RANGE BETWEEN $2::interval PRECEDING AND $2::interval FOLLOWING)),
        alone AS (SELECT * FROM counted WHERE lines = 1 AND transactions = 1)
        UPDATE statement_line l SET trx_id = t.key, matched_by = 'amount'
          FROM alone s
          JOIN alone t ON NOT t.is_line AND t.currency = s.currency
           AND t.amount_minor = s.amount_minor
           AND t.booked_at BETWEEN s.booked_at - $2::interval AND s.booked_at + $2::interval
           AND ('other' = ANY (s.kinds) OR s.kinds && t.kinds)
         WHERE s.is_line AND l.merchant_id = 0 AND l.provider = $1 AND l.line_id = s.key""",
        *(provider, NEAR),
    )


async def _compare(connection: Connection, provider: str) -> None:
    """Compares the sums of every transaction that has an open line or movement."""
    await connection.execute(
        """
        WITH open AS (
            SELECT currency, trx_id FROM clearing_movement WHERE provider = $1 AND NOT is_matched
             UNION
            SELECT currency, trx_id FROM statement_line
             WHERE provider = $1 AND NOT is_matched AND trx_id IS NOT NULL),
        ours AS (
            SELECT m.currency, m.trx_id, sum(m.amount_minor) AS minor
              FROM clearing_movement m JOIN open o USING (currency, trx_id)
             WHERE m.provider = $1 GROUP BY m.currency, m.trx_id),
        theirs AS (
            SELECT l.currency, l.trx_id, sum(l.amount_minor) AS minor
              FROM statement_line l JOIN open o USING (currency, trx_id)
             WHERE l.provider = $1 GROUP BY l.currency, l.trx_id),
        judged AS (
            SELECT o.currency, o.trx_id,
                   coalesce(ours.minor, 0) = coalesce(theirs.minor, 0) AS is_matched
              FROM open o
              LEFT JOIN ours USING (currency, trx_id)
              LEFT JOIN theirs USING (currency, trx_id)),
        lines AS (
            UPDATE statement_line l SET is_matched = j.is_matched FROM judged j
             WHERE l.provider = $1 AND l.currency = j.currency AND l.trx_id = j.trx_id
               AND l.is_matched <> j.is_matched)
        UPDATE clearing_movement m SET is_matched = j.is_matched FROM judged j
         WHERE m.provider = $1 AND m.currency = j.currency AND m.trx_id = j.trx_id
           AND m.is_matched <> j.is_matched""",
        provider,
    )
