"""Ledger invariants about disputes, withheld money and merchants' debts."""

from manilla.job_kinds import JobKind
from manilla.ledger.invariants import Invariant
from manilla.ledger.posting import SHORT, WITHHELD
from manilla.posting_kinds import PostingKind, in_sql, kind_of
from manilla.prices.columns import fee

SHARED = PostingKind.SPLIT, PostingKind.SHARE  # `splits/invariants.py` checks these kinds

DISPUTES: tuple[Invariant, ...] = (
    Invariant(
        "short_wallets_equal_their_entries",
        "What a merchant owes is the sum of its entries in the account short. A wallet whose "
        "merchant owes money is empty.",
        f"""SELECT merchant_id, environment, currency, w.short_minor, w.balance_minor, e.sum
             FROM wallet w
             FULL JOIN (SELECT merchant_id, environment, currency, sum(amount_minor) AS sum
                          FROM entry WHERE account = '{SHORT}'
                         GROUP BY merchant_id, environment, currency) AS e
                  USING (merchant_id, environment, currency)
            WHERE coalesce(w.short_minor, 0) <> -coalesce(e.sum, 0)
               OR (w.short_minor > 0 AND w.balance_minor > 0)""",
    ),
    Invariant(
        "withheld_equals_what_is_open",
        "The withheld money of each dispute is what it holds. An ended dispute holds nothing.",
        f"""SELECT coalesce(d.merchant_id, e.merchant_id) AS merchant_id,
                  coalesce(d.trx_id, e.trx_id) AS trx_id, d.status, d.withheld_minor, e.sum
             FROM dispute d
             FULL JOIN (SELECT p.merchant_id, p.trx_id, sum(e.amount_minor) AS sum
                          FROM entry e
                          JOIN posting p ON p.merchant_id = e.merchant_id AND p.id = e.posting_id
                         WHERE e.account = '{WITHHELD}'
                           AND {kind_of("p.kind")} NOT IN {in_sql(SHARED)}
                         GROUP BY p.merchant_id, p.trx_id) AS e
                    ON e.merchant_id = d.merchant_id AND e.trx_id = d.trx_id
            WHERE coalesce(d.withheld_minor, 0) <> coalesce(e.sum, 0)
               OR (d.status IN ('won', 'lost', 'accepted') AND d.withheld_minor <> 0)
               OR (d.status NOT IN ('lost', 'accepted') AND d.taken_minor <> 0)""",
    ),
    Invariant(
        "disputes_take_what_they_say",
        "Each dispute took from its provider's clearing account what the provider took, with its "
        "fee. The commission has what a plan charges, without what was returned.",
        f"""SELECT d.merchant_id, d.trx_id, d.status, d.taken_minor, d.fee_minor,
                  d.commission_minor, e.clearing, e.commission
             FROM dispute d
            CROSS JOIN LATERAL (
                  SELECT coalesce(sum(e.amount_minor)
                                  FILTER (WHERE e.account = 'clearing:' || d.provider
                                            AND {kind_of("p.kind")} <> '{PostingKind.SHORT_PAID}'),
                                  0) AS clearing,
                         coalesce(sum(e.amount_minor) FILTER (WHERE e.account = 'commission'), 0)
                         AS commission
                    FROM posting p
                    JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
                   WHERE p.merchant_id = d.merchant_id AND p.trx_id = d.trx_id) AS e
            WHERE (d.taken_minor + d.fee_minor, {fee("d")} - d.commission_minor)
                  <> (e.clearing, e.commission)""",
    ),
    Invariant(
        "disputed_amounts_are_what_disputes_hold",
        "The disputed amount of a payment is what its disputes hold or took. With its refunds, it "
        "is not above what was paid.",
        """SELECT p.merchant_id, p.trx_id, p.disputed_minor, d.sum, r.sum AS refunded
             FROM payment p
             LEFT JOIN (SELECT merchant_id, payment_trx_id AS trx_id,
                               sum(withheld_minor + taken_minor) AS sum
                          FROM dispute GROUP BY merchant_id, payment_trx_id) AS d
                  USING (merchant_id, trx_id)
             LEFT JOIN (SELECT merchant_id, payment_trx_id AS trx_id,
                               sum(amount_minor - customer_credit_minor) AS sum
                          FROM refund WHERE status <> 'failed'
                         GROUP BY merchant_id, payment_trx_id) AS r
                  USING (merchant_id, trx_id)
            WHERE p.disputed_minor <> coalesce(d.sum, 0)
               OR (p.disputed_minor > 0 AND p.disputed_minor + coalesce(r.sum, 0) > p.amount_minor
                   + p.customer_tax_minor
                   + CASE p.commission_bearer WHEN 'customer' THEN p.commission_minor
                     ELSE 0 END)""",
    ),
    Invariant(
        "open_disputes_have_a_job",
        "Each open dispute has a job that watches its deadline, unless it is a decided test.",
        f"""SELECT d.merchant_id, d.trx_id, d.status FROM dispute d
            WHERE (d.status = 'needs_response'
                   OR (d.status = 'submitted' AND d.environment = 'production'))
              AND NOT EXISTS (
                  SELECT FROM job j
                   WHERE j.merchant_id = d.merchant_id AND j.subject = d.trx_id
                     AND j.kind = '{JobKind.DISPUTE}')""",
    ),
)
