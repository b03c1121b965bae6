"""Ledger invariants about prices and taxes."""

from manilla.ledger.invariants import Invariant
from manilla.posting_kinds import PostingKind, in_sql, kind_of
from manilla.prices.columns import OF_INCOME, OWED, fee, taxes

# The transactions that have a stored price, with their fee.
_PRICED = f"""
    SELECT 'payment' AS direction, merchant_id, trx_id, environment::text, currency, created_at,
           amount_minor, commission_minor AS fee_minor, commission_bearer, price
      FROM payment WHERE price IS NOT NULL
     UNION ALL
    SELECT CASE purpose WHEN 'own_account' THEN 'settlement' ELSE 'payout' END, merchant_id, trx_id,
           environment::text, currency, created_at, amount_minor, fee_minor, 'merchant', price
      FROM payout WHERE price IS NOT NULL
     UNION ALL
    SELECT 'dispute', merchant_id, trx_id, environment::text, currency, created_at, amount_minor,
           {fee("dispute")}, 'merchant', price
      FROM dispute WHERE price IS NOT NULL"""
# The taxes that a payment owes in the ledger. The sandbox deducts nothing from wallets.
_BOOKED = f"""{OWED} AND (p.environment = 'production' OR t ->> 'borne_by' = 'customer'
                         OR (p.commission_bearer = 'customer' AND {OF_INCOME}))"""
_OF_PAYMENT = in_sql((PostingKind.PAYMENT, PostingKind.COMMISSION))

PRICES: tuple[Invariant, ...] = (
    Invariant(
        "fees_equal_their_plan",
        "The fee of each transaction with a plan is what the line of its stored version charges.",
        f"""SELECT p.direction, p.merchant_id, p.trx_id, p.amount_minor, p.fee_minor,
                  p.price ->> 'plan' AS plan, v.version
             FROM ({_PRICED}) AS p
             JOIN price_version v
               ON v.merchant_id = CASE WHEN p.price ->> 'is_own' = 'true' THEN p.merchant_id
                                       ELSE 0 END
                  AND v.plan = p.price ->> 'plan' AND v.version = (p.price ->> 'version')::integer
            CROSS JOIN LATERAL (
                  SELECT v.content -> 'lines' -> ((p.price ->> 'line')::integer - 1)) AS l (line)
            CROSS JOIN LATERAL jsonb_to_record(coalesce(l.line -> 'terms', '{{}}')) AS r (
                  percent numeric, fixed_minor bigint, waived_below_minor bigint,
                  minimum_minor bigint, maximum_minor bigint, step_minor bigint)
            CROSS JOIN LATERAL (
                  SELECT round(p.amount_minor * coalesce(r.percent, 0)
                               / (100 * coalesce(r.step_minor, 1))) * coalesce(r.step_minor, 1)
                         + CASE WHEN p.amount_minor < r.waived_below_minor THEN 0
                                ELSE coalesce(r.fixed_minor, 0) END) AS s (minor)
            WHERE p.fee_minor <> least(greatest(s.minor, r.minimum_minor), r.maximum_minor)
               OR (l.line ->> 'direction', l.line ->> 'currency')
                  IS DISTINCT FROM (p.direction, p.currency::text)
               OR l.line ->> 'environment' <> p.environment
               OR v.starts_at > p.created_at + interval '1 minute'""",
    ),
    Invariant(
        "taxes_equal_their_rule",
        "Each tax of a transaction is what its stored rule charges.",
        f"""SELECT p.direction, p.merchant_id, p.trx_id, t ->> 'name' AS tax, t ->> 'minor' AS minor
             FROM ({_PRICED}) AS p
            CROSS JOIN LATERAL jsonb_array_elements(p.price -> 'taxes') AS t
             JOIN tax_rule r ON r.number = (t ->> 'number')::integer
            CROSS JOIN LATERAL (
                  SELECT (r.content ->> 'percent')::numeric,
                         CASE WHEN r.content ->> 'included' = 'true'
                              THEN (r.content ->> 'percent')::numeric ELSE 0 END,
                         CASE t ->> 'base' WHEN 'fee' THEN p.fee_minor ELSE p.amount_minor END)
                  AS c (percent, within, base)
            WHERE r.name <> t ->> 'name'
               -- If the customer bears a tax on the merchant's fee, it does not depend on the way.
               OR (NOT (t ->> 'borne_by' = 'customer' AND p.commission_bearer = 'merchant')
                   AND (t ->> 'minor')::bigint <> coalesce(
                       round(c.base * c.percent / (100 + c.within)),
                       least((r.content ->> 'fixed_minor')::bigint,
                             CASE WHEN r.content ->> 'included' = 'true' THEN c.base END)))""",
    ),
    Invariant(
        "tax_liabilities_equal_their_transactions",
        "The tax accounts have the taxes of each payment and payout, and nothing else.",
        f"""SELECT coalesce(s.merchant_id, e.merchant_id) AS merchant_id,
                  coalesce(s.id, e.trx_id) AS trx_id, s.minor, e.minor AS booked
             FROM (SELECT p.merchant_id, p.trx_id AS id, {taxes("p", OWED)} AS minor
                     FROM payout p WHERE p.price IS NOT NULL
                    UNION ALL
                   SELECT p.merchant_id, coalesce(p.commission_trx_id, p.trx_id),
                          {taxes("p", _BOOKED)}
                     FROM payment p WHERE p.price IS NOT NULL AND p.status = 'success') AS s
             FULL JOIN (SELECT g.merchant_id, g.trx_id, sum(e.amount_minor) AS minor
                          FROM entry e
                          JOIN posting g ON g.merchant_id = e.merchant_id AND g.id = e.posting_id
                         WHERE e.account ^@ 'tax:' AND (g.kind = '{PostingKind.PAYOUT}'
                               OR {kind_of("g.kind")} IN {_OF_PAYMENT})
                         GROUP BY g.merchant_id, g.trx_id) AS e
                  ON e.merchant_id = s.merchant_id AND e.trx_id = s.id
            WHERE coalesce(s.minor, 0) <> coalesce(e.minor, 0)""",
    ),
)
