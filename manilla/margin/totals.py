"""Adds final postings to the daily totals of what was charged and what providers took.

Every posting is added once, on the day on which it was posted. So the totals equal the ledger's
accounts, and a fee that is returned in a later month lowers that month.
"""

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import RowSource
from manilla.ledger import final_postings, posting
from manilla.margin.transactions import CHANNEL
from manilla.posting_kinds import PostingKind, PostingSource, kind_of

IDS_MAX = 5_000  # maximum range of posting ids that are added in one transaction

_EARNED = f"('{posting.COMMISSION}', '{posting.PAYOUT_FEE}')"
_TAKEN = f"starts_with(e.account, '{posting.provider_fee('')}')"
_HELD = f"starts_with(e.account, '{posting.clearing('')}')"
# Another cell counts the postings that arrived with a merchant. $1, $2: the range of ids; $3, $4:
# the known kinds of postings, and their sources.
_POSTED = f"""
    SELECT p.merchant_id, p.id, p.trx_id, p.environment, p.currency, {kind_of("p.kind")} AS kind,
           (p.posted_at AT TIME ZONE 'Africa/Lagos')::date AS day
      FROM posting p
     WHERE p.id > $1 AND p.id <= $2
       AND NOT EXISTS (SELECT FROM merchant_fence f
                        WHERE f.merchant_id = p.merchant_id AND f.state = 'arriving'
                          AND p.id > f.after_id)
       AND NOT EXISTS (SELECT FROM posting_chain a
                        WHERE a.merchant_id = p.merchant_id
                          AND p.id BETWEEN a.first_id AND a.last_id)"""
_FEES = f"""
    SELECT p.*, k.source, e.*
      FROM posted p
      LEFT JOIN unnest($3::text[], $4::text[]) AS k (kind, source) ON k.kind = p.kind
     CROSS JOIN LATERAL (
           SELECT coalesce(sum(e.amount_minor) FILTER (WHERE e.account IN {_EARNED}), 0) AS earned,
                  coalesce(-sum(e.amount_minor) FILTER (WHERE {_TAKEN}), 0) AS paid,
                  coalesce(sum(e.amount_minor) FILTER (
                      WHERE ({_HELD} OR {_TAKEN}) AND p.kind = '{PostingKind.DISPUTE_FEE}'), 0)
                  AS passed,
                  -- A posting of the archive can be about several providers.
                  CASE WHEN k.source <> '{PostingSource.ARCHIVE}' THEN
                  max(split_part(e.account, ':', 2)) FILTER (WHERE {_TAKEN} OR {_HELD}) END
                  AS provider
             FROM entry e
            WHERE e.merchant_id = p.merchant_id AND e.posting_id = p.id
           OFFSET 0) AS e
     WHERE e.earned <> 0 OR e.paid <> 0 OR e.passed <> 0
        OR p.kind IN ('{PostingKind.PAYMENT}', '{PostingKind.PAYOUT_DELIVERED}')"""
# The charge that a posting is about: each source names it in another way.
_CHARGE = f"""
    SELECT c.method_code, coalesce({CHANNEL}, '') AS channel, c.provider
      FROM (SELECT y.credited_charge AS reference FROM payment y
             WHERE f.source = '{PostingSource.PAYMENT}'
               AND y.merchant_id = f.merchant_id AND y.trx_id = f.trx_id
             UNION ALL
            SELECT y.credited_charge FROM payment y
             WHERE f.source = '{PostingSource.COMMISSION}'
               AND y.merchant_id = f.merchant_id AND y.commission_trx_id = f.trx_id
             UNION ALL
            SELECT r.charge_reference FROM refund r
             WHERE f.source IN ('{PostingSource.REFUND}', '{PostingSource.CASE}')
               AND r.merchant_id = f.merchant_id AND r.trx_id = f.trx_id
             UNION ALL
            SELECT d.charge_reference FROM dispute d
             WHERE f.source = '{PostingSource.DISPUTE}'
               AND d.merchant_id = f.merchant_id AND d.trx_id = f.trx_id
             UNION ALL
            SELECT f.trx_id
             WHERE f.source IN ('{PostingSource.CHARGE}', '{PostingSource.CASE}')) AS named
      JOIN charge c ON c.merchant_id = f.merchant_id AND c.reference = named.reference
     LIMIT 1"""
# A payout's fee is debited before it is certain which provider will pay it. The fee then has no
# provider. When the payout is delivered, the totals of the day of the debit get its provider.
_DEBITED = f"""
    SELECT (debit.posted_at AT TIME ZONE 'Africa/Lagos')::date AS day, e.earned
      FROM (SELECT id, posted_at FROM posting
             WHERE f.kind = '{PostingKind.PAYOUT_DELIVERED}' AND f.provider IS NOT NULL
               AND merchant_id = f.merchant_id AND trx_id = f.trx_id
               AND kind = '{PostingKind.PAYOUT}'
            OFFSET 0) AS debit
     CROSS JOIN LATERAL (
           SELECT amount_minor AS earned FROM entry
            WHERE merchant_id = f.merchant_id AND posting_id = debit.id
              AND account = '{posting.PAYOUT_FEE}'
           OFFSET 0) AS e"""
_KEY = "merchant_id, day, environment, currency, kind, method_code, channel, provider"
_SUMS = ("transactions", "earned_minor", "paid_minor", "passed_minor")
_ADD = f"""
    WITH posted AS MATERIALIZED ({_POSTED}),
    fees AS MATERIALIZED ({_FEES}),
    placed AS MATERIALIZED (
        SELECT f.*, coalesce(c.method_code, o.method_code, '') AS method_code,
               CASE WHEN c.method_code IS NOT NULL THEN 'payment'
                    WHEN o.method_code IS NOT NULL THEN 'payout' ELSE '' END AS transaction_kind,
               coalesce(c.channel, '') AS channel,
               coalesce(f.provider, c.provider, '') AS provider_name
          FROM fees f
          LEFT JOIN LATERAL ({_CHARGE}) AS c ON true
          LEFT JOIN payout o
            ON f.source IN ('{PostingSource.PAYOUT}', '{PostingSource.CASE}')
           AND o.merchant_id = f.merchant_id AND o.trx_id = f.trx_id),
    added AS (
        SELECT merchant_id, day, environment, currency, transaction_kind AS kind, method_code,
               channel, provider_name AS provider, earned, paid, passed,
               (kind IN ('{PostingKind.PAYMENT}', '{PostingKind.PAYOUT_DELIVERED}'))::int AS number
          FROM placed
         UNION ALL
        SELECT f.merchant_id, d.day, f.environment, f.currency, f.transaction_kind, f.method_code,
               f.channel, m.provider, m.sign * d.earned, 0, 0, 0
          FROM placed f
         CROSS JOIN LATERAL ({_DEBITED}) AS d
         CROSS JOIN LATERAL (VALUES ('', -1), (f.provider, 1)) AS m (provider, sign))
    INSERT INTO margin_day AS m ({_KEY}, {", ".join(_SUMS)})
    SELECT {_KEY}, sum(number), sum(earned), sum(paid), sum(passed)
      FROM added GROUP BY {_KEY}
        ON CONFLICT ({_KEY}) DO UPDATE
       SET {", ".join(f"{name} = m.{name} + excluded.{name}" for name in _SUMS)}"""


async def add_final_postings(db: Database) -> None:
    head = "SELECT last_id FROM margin_head FOR UPDATE SKIP LOCKED"
    await final_postings.add(db, head, IDS_MAX, _add_range)


async def _add_range(connection: Connection, after: int, until: int) -> None:
    kinds = list(PostingKind)
    await connection.execute(_ADD, after, until, kinds, [kind.source for kind in kinds])
    await connection.execute("UPDATE margin_head SET last_id = $1", until)


async def count_waiting(db: RowSource) -> int:
    """Returns how many postings, at most, the totals do not contain yet."""
    return await db.number(
        """
        SELECT coalesce(pg_sequence_last_value('posting_id_seq'), 0) - h.last_id
          FROM margin_head h"""
    )
