"""Matches statement lines with the movements in our ledger, all in a few statements.

A transaction matches if its lines and its movements have the same sum. A fee therefore matches
whether the provider lists it as a separate line or includes it in another line.

No SQL statement in this module joins two large sets so that each row could be compared with each
other row, because the planner has no statistics after the first import.
"""

from datetime import timedelta

from manilla.kit.database.connections import Connection
from manilla.providers.checks import references
from manilla.providers.checks.check import AMOUNT

# The maximum time between a statement line and a movement that match only by amount.
NEAR = timedelta(days=1)
# The largest amount that a test of a provider account can move, including the provider's fee.
CHECK_MINOR_MAX = AMOUNT.minor + 100_00

# Selects the movements and lines of account $1 that do not match or were not compared yet.
# `place` is the line's ctid. `reference` is its transaction's id, or the line's own id.
OPEN_SIDES = """
        WITH open AS (
            SELECT ARRAY(SELECT trx_id FROM unmatched_transaction
                          WHERE merchant_id = 0 AND provider = $1) AS trx_ids),
        sides AS (
            SELECT currency, trx_id AS reference, trx_id, booked_at, kind,
                   amount_minor AS ours, NULL::bigint AS theirs, NULL::text AS line_id,
                   '' AS description, NULL::tid AS place
              FROM clearing_movement
             WHERE provider = $1 AND trx_id = ANY ((SELECT trx_ids FROM open)::text[])
             UNION ALL
            SELECT currency, trx_id, trx_id, booked_at, kind, NULL, amount_minor, line_id,
                   description, ctid
              FROM statement_line
             WHERE provider = $1 AND trx_id = ANY ((SELECT trx_ids FROM open)::text[])
             UNION ALL
            SELECT currency, line_id, NULL, booked_at, kind, NULL, amount_minor, line_id,
                   description, ctid
              FROM statement_line WHERE provider = $1 AND trx_id IS NULL)"""

# Saves the transaction found for each line, and marks the transaction for another comparison.
SAVE_FOUND = """,
        named AS (
            UPDATE statement_line l SET trx_id = f.trx_id, matched_by = $2
              FROM found f WHERE l.ctid = f.place)
        INSERT INTO unmatched_transaction (provider, trx_id)
        SELECT DISTINCT $1, trx_id FROM found
            ON CONFLICT DO NOTHING"""


async def match(connection: Connection, provider: str) -> None:
    """Matches all open lines and movements of an account that the caller has locked."""
    await _find_by_provider_reference(connection, provider)
    await _find_checks(connection, provider)
    await _compare(connection, provider)  # so that the next step has fewer transactions
    await _find_by_amount(connection, provider)
    await _compare(connection, provider)


async def _find_by_provider_reference(connection: Connection, provider: str) -> None:
    """Finds the transactions for statement lines that have only the provider's own reference.

    Charges, transfers, refunds and disputes can have the same number, so the kinds must match too.
    """
    await connection.execute(
        """
        WITH nameless AS (
            SELECT l.ctid AS place, l.kind, given.rank, given.reference
              FROM statement_line l
             CROSS JOIN LATERAL (VALUES (1, l.provider_reference), (2, l.reference))
                   AS given (rank, reference)
             WHERE l.provider = $1 AND l.trx_id IS NULL AND given.reference IS NOT NULL),
        known AS (
            SELECT n.place, n.rank, c.trx_id FROM nameless n
              JOIN charge c ON c.provider_reference = n.reference AND c.provider = $1
             WHERE n.kind IN ('charge', 'dispute', 'fee', 'other')
             UNION ALL
            SELECT n.place, n.rank, d.payment_trx_id FROM nameless n
              JOIN dispute d ON d.provider_reference = n.reference AND d.provider = $1
             WHERE n.kind = 'dispute'
             UNION ALL
            SELECT n.place, n.rank, o.trx_id FROM nameless n
              JOIN payout o ON o.provider_reference = n.reference AND o.provider = $1
             WHERE n.kind IN ('transfer', 'fee', 'other')
             UNION ALL
            SELECT n.place, n.rank, r.trx_id FROM nameless n
              JOIN refund r ON r.provider_reference = n.reference AND r.provider = $1
             WHERE n.kind IN ('refund', 'fee', 'other')),
        found AS (
            SELECT DISTINCT ON (place) place, min(trx_id) AS trx_id
              FROM known GROUP BY place, rank HAVING min(trx_id) = max(trx_id)
             ORDER BY place, rank)"""
        + SAVE_FOUND,
        *(provider, "provider_reference"),
    )


async def _find_checks(connection: Connection, provider: str) -> None:
    """Marks the statement lines that were caused by account tests and are not in our ledger.

    Lines with more money than a test moves are not marked, because anyone could use such a
    reference.
    """
    await connection.execute(
        r"""
        UPDATE statement_line SET trx_id = upper(named.check_reference), matched_by = 'reference'
          FROM (SELECT ctid AS place, regexp_substr(
                       concat_ws(' ', reference, provider_reference, description),
                       '\m' || $2 || '(?![0-9a-z])', 1, 1, 'i') AS check_reference
                  FROM statement_line WHERE provider = $1 AND trx_id IS NULL) AS named
         WHERE ctid = named.place AND named.check_reference IS NOT NULL
           AND abs(amount_minor) <= $3""",
        *(provider, references.PATTERN, CHECK_MINOR_MAX),
    )


async def _find_by_amount(connection: Connection, provider: str) -> None:
    """Finds the transactions for statement lines without a reference, if the match is unambiguous.

    A line and a transaction match if the line is near no other transaction, and the transaction is
    near no other line. The two rows are then the first and the last row of their window.
    """
    await connection.execute(
        OPEN_SIDES
        + """,
        single AS (
            SELECT currency, theirs AS minor, booked_at, place, kind, NULL AS trx_id,
                   NULL::text[] AS kinds
              FROM sides WHERE trx_id IS NULL
             UNION ALL
            SELECT currency, sum(ours), min(booked_at), NULL, NULL, trx_id, array_agg(kind)
              FROM sides WHERE trx_id IS NOT NULL
             GROUP BY currency, trx_id HAVING count(theirs) = 0),
        counted AS (
            SELECT kind, kinds, count(place) OVER near AS lines,
                   count(trx_id) OVER near AS transactions,
                   coalesce(first_value(place) OVER near, last_value(place) OVER near) AS place,
                   coalesce(first_value(trx_id) OVER near, last_value(trx_id) OVER near) AS trx_id
              FROM single
            WINDOW near AS (PARTITION BY currency, minor ORDER BY booked_at
                            RANGE BETWEEN $3::interval PRECEDING AND $3::interval FOLLOWING)),
        found AS (
            SELECT place, trx_id FROM counted WHERE lines = 1 AND transactions = 1
             GROUP BY place, trx_id
            HAVING count(*) = 2 AND (max(kind) = 'other' OR max(kind) = ANY (max(kinds))))"""
        + SAVE_FOUND,
        *(provider, "amount", NEAR),
    )


async def _compare(connection: Connection, provider: str) -> None:
    """Removes unmatched transactions whose sums on statement and ledger are now equal."""
    await connection.execute(
        OPEN_SIDES
        + """,
        sums AS (
            SELECT trx_id, coalesce(sum(ours), 0) = coalesce(sum(theirs), 0) AS is_equal
              FROM sides WHERE trx_id IS NOT NULL GROUP BY trx_id, currency)
        DELETE FROM unmatched_transaction
         WHERE merchant_id = 0 AND provider = $1
           AND trx_id = ANY (ARRAY(
               SELECT trx_id FROM sums GROUP BY trx_id HAVING bool_and(is_equal)))""",
        provider,
    )
