"""Ledger invariants about payouts and about money in transit."""

from manilla.job_kinds import JobKind
from manilla.kit.price import debit_minor
from manilla.ledger.invariants import Invariant
from manilla.posting_kinds import PostingKind
from manilla.prices.columns import KEPT, taxes

DESTINATION = """payout_destination(
                  p.environment::text, p.currency, p.amount_minor, p.provider,
                  p.rail_bank_code IS NOT NULL, p.beneficiary)"""

PAYOUTS: tuple[Invariant, ...] = (
    Invariant(
        "payouts_were_debited_once",
        "Each payout has exactly one wallet debit, of its amount, its fee and its taxes.",
        f"""SELECT p.merchant_id, p.trx_id, p.amount_minor, p.fee_minor, d.debited
             FROM payout p
             FULL JOIN (SELECT g.merchant_id, g.trx_id, -sum(e.amount_minor) AS debited
                          FROM posting g
                          JOIN entry e ON e.merchant_id = g.merchant_id AND e.posting_id = g.id
                         WHERE g.kind = '{PostingKind.PAYOUT}' AND e.account = 'wallet'
                         GROUP BY g.merchant_id, g.trx_id) AS d
                  USING (merchant_id, trx_id)
            WHERE {debit_minor("p")} IS DISTINCT FROM d.debited""",
    ),
    Invariant(
        "payouts_are_as_accepted",
        "Each payout has the amount and the destination with which it was accepted: the digest in "
        "its posting. Payouts that the previous version has accepted have no digest.",
        f"""SELECT p.merchant_id, p.trx_id, p.status, g.reason AS accepted,
                  {DESTINATION} AS stored
             FROM payout p
             JOIN posting g ON g.merchant_id = p.merchant_id AND g.trx_id = p.trx_id
                  AND g.kind = '{PostingKind.PAYOUT}'
            WHERE g.reason IS DISTINCT FROM {DESTINATION}
              AND NOT (g.reason IS NULL AND (
                       g.posted_at < coalesce((SELECT since FROM destination_epoch), '-infinity')
                       OR EXISTS (
                           SELECT FROM posting_chain a
                            WHERE a.merchant_id = g.merchant_id
                              AND g.id BETWEEN a.first_id AND a.last_id)))""",
    ),
    Invariant(
        "ended_payouts_were_refunded_once",
        "Each failed or canceled payout has one refund of the debited amount, without taxes that "
        "are not returned. Others have none.",
        f"""SELECT p.merchant_id, p.trx_id, p.status, r.refunded
             FROM payout p
             FULL JOIN (SELECT g.merchant_id, g.trx_id, sum(e.amount_minor) AS refunded
                          FROM posting g
                          JOIN entry e ON e.merchant_id = g.merchant_id AND e.posting_id = g.id
                         WHERE g.kind = '{PostingKind.PAYOUT_REFUND}' AND e.account = 'wallet'
                         GROUP BY g.merchant_id, g.trx_id) AS r
                  USING (merchant_id, trx_id)
            WHERE CASE WHEN p.status IN ('failed', 'canceled')
                       THEN {debit_minor("p")} - {taxes("p", KEPT)} END
                  IS DISTINCT FROM r.refunded""",
    ),
    Invariant(
        "payouts_were_delivered_as_they_say",
        "A completed payout has a delivery posting; a pending or canceled payout has none.",
        f"""SELECT p.merchant_id, p.trx_id, p.status, g.kind
             FROM payout p
             LEFT JOIN posting g ON g.merchant_id = p.merchant_id AND g.trx_id = p.trx_id
                  AND g.kind = '{PostingKind.PAYOUT_DELIVERED}'
            WHERE (p.status = 'completed' AND g.kind IS NULL)
               OR (p.status IN ('pending', 'canceled') AND g.kind IS NOT NULL)
               OR (p.status = 'failed' AND NOT p.is_reversed AND g.kind IS NOT NULL)""",
    ),
    Invariant(
        "in_flight_is_what_is_open",
        "The in_flight account equals the sum of pending payouts and refunds.",
        """SELECT coalesce(e.merchant_id, o.merchant_id) AS merchant_id, e.sum, o.sum AS open
             FROM (SELECT merchant_id, environment, currency, sum(amount_minor) AS sum FROM entry
                    WHERE account = 'in_flight' GROUP BY merchant_id, environment, currency) AS e
             FULL JOIN (SELECT merchant_id, environment, currency, sum(amount_minor) AS sum
                          FROM (SELECT merchant_id, environment, currency, amount_minor
                                  FROM payout WHERE (status || '') = 'pending'
                                 UNION ALL
                                SELECT merchant_id, environment, currency, amount_minor
                                  FROM refund WHERE status = 'pending') AS open
                         GROUP BY merchant_id, environment, currency) AS o
                  USING (merchant_id, environment, currency)
            WHERE coalesce(e.sum, 0) <> coalesce(o.sum, 0)""",
    ),
    Invariant(
        "final_payouts_were_told",
        "Each final payout that has an ipn_url has a notification of its status, unless old "
        "notifications were deleted.",
        """SELECT p.merchant_id, p.trx_id, p.status FROM payout p
            WHERE p.status <> 'pending' AND p.ipn_url <> '' AND NOT EXISTS (
                  SELECT FROM deleted_notifications d
                   WHERE d.merchant_id = p.merchant_id AND d.until >= p.created_at)
              AND NOT EXISTS (
                  SELECT FROM notification n
                   WHERE n.merchant_id = p.merchant_id AND n.trx_id = p.trx_id
                     AND n.event = 'payout' AND n.status = p.status)""",
    ),
    Invariant(
        "open_payouts_have_a_job",
        "Each open automatic payout has a job or an open case.",
        f"""SELECT p.merchant_id, p.trx_id FROM payout p
            WHERE p.status = 'pending' AND p.provider IS NOT NULL AND p.environment = 'production'
              AND NOT EXISTS (SELECT FROM job j
                   WHERE j.merchant_id = p.merchant_id AND j.kind = '{JobKind.TRANSFER}'
                     AND j.subject = p.trx_id)
              AND NOT EXISTS (SELECT FROM operator_case c
                   WHERE c.merchant_id = p.merchant_id AND c.trx_id = p.trx_id
                     AND c.status = 'open')""",
    ),
    Invariant(
        "payouts_have_at_most_one_live_attempt",
        "Each automatically routed payout has exactly one current attempt, at its provider.",
        """SELECT p.merchant_id, p.trx_id, p.status, p.provider, a.providers
             FROM payout p
             FULL JOIN (SELECT merchant_id, trx_id,
                               array_agg(provider) FILTER (WHERE dead_at IS NULL) AS providers
                          FROM payout_attempt GROUP BY merchant_id, trx_id) AS a
                  USING (merchant_id, trx_id)
            WHERE (p.rail_bank_code IS NOT NULL OR a.trx_id IS NOT NULL)
              AND a.providers IS DISTINCT FROM ARRAY[p.provider]""",
    ),
    Invariant(
        "payout_history_is_gapless_and_legal",
        "A payout's timeline leads from pending to its status, without gaps or invalid changes.",
        """SELECT * FROM (
             SELECT p.merchant_id, p.trx_id, p.status, t.number, t.from_status, t.to_status,
                    row_number() OVER h AS expected,
                    lag(t.to_status, 1, 'pending') OVER h AS before,
                    lead(t.number) OVER h IS NULL AS is_last
               FROM payout p
               LEFT JOIN timeline t ON t.merchant_id = p.merchant_id AND t.trx_id = p.trx_id
             WINDOW h AS (PARTITION BY p.merchant_id, p.trx_id ORDER BY t.number)) AS history
            WHERE number <> expected OR from_status <> before
               OR (is_last AND coalesce(to_status, 'pending') <> status)
               OR (from_status IN ('failed', 'canceled') AND to_status <> from_status)
               OR (from_status, to_status) IN (('completed', 'pending'),
                                               ('completed', 'canceled'))""",
    ),
)
