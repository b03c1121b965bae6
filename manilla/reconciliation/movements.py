"""Copies the movements of a clearing account from the ledger, to match them with statements."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from manilla.kit.db import Connection
from manilla.ledger import posting
from manilla.reconciliation.lines import TRX_ID_LENGTH

# Recent postings are copied again, because a posting may commit later than its timestamp.
OVERLAP = timedelta(hours=1)


async def copy(
    connection: Connection, provider: str, since: datetime, kinds: Iterable[str]
) -> None:
    """Copies ledger movements of these kinds since this time. Skips movements already copied."""
    # With the currency, the index returns both times without reading the provider's movements.
    copied = await connection.record(
        """
        SELECT min(m.first) AS first, max(m.last) AS last
          FROM (SELECT DISTINCT currency FROM statement_day WHERE provider = $1) AS c
         CROSS JOIN LATERAL (
               SELECT min(booked_at) AS first, max(booked_at) AS last FROM clearing_movement
                WHERE provider = $1 AND currency = c.currency) AS m""",
        provider,
    )
    is_known = copied["first"] is not None and copied["first"] <= since
    start = max(since, copied["last"] - OVERLAP) if is_known else since
    await connection.execute(
        """
        WITH copied AS (
            INSERT INTO clearing_movement
                   (merchant_id, posting_id, provider, currency, trx_id, kind, booked_at,
                    amount_minor)
            SELECT * FROM (
            SELECT p.merchant_id, p.id, $1, e.currency, left(coalesce(c.trx_id, p.trx_id), $4),
                   CASE WHEN p.kind LIKE 'payout%' THEN 'transfer'
                        WHEN p.kind = 'refund_paid' THEN 'refund'
                        WHEN p.kind IN ('settle_fee', 'settle_fee_returned') THEN 'fee'
                        WHEN p.kind LIKE 'settle%' THEN 'settlement'
                        WHEN p.kind LIKE 'case%' THEN 'other'
                        ELSE 'charge' END AS kind,
                   p.posted_at, -e.amount_minor
              FROM posting p
              JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
               AND e.account = $2
              LEFT JOIN payment c ON p.kind = 'commission' AND c.merchant_id = p.merchant_id
               AND c.commission_trx_id = p.trx_id
             WHERE p.posted_at >= $3 AND p.environment = 'production'
               AND p.trx_id <> 'carried_forward'
               -- Movements of postings that arrived with a merchant are in the cell they are from.
               AND NOT EXISTS (SELECT FROM merchant_fence f
                                WHERE f.merchant_id = p.merchant_id
                                  AND f.state IN ('arriving', 'partial') AND p.id > f.after_id)
               AND NOT EXISTS (SELECT FROM posting_chain a
                                WHERE a.merchant_id = p.merchant_id
                                  AND p.id BETWEEN a.first_id AND a.last_id)) AS moved
             WHERE kind = ANY ($5::text[])
                ON CONFLICT DO NOTHING
            RETURNING trx_id)
        INSERT INTO unmatched_transaction (provider, trx_id)
        SELECT DISTINCT $1, trx_id FROM copied
            ON CONFLICT DO NOTHING""",
        *(provider, posting.clearing(provider), start, TRX_ID_LENGTH, list(kinds)),
    )
