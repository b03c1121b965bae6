"""Invariants of the daily totals."""

from manilla.ledger import posting
from manilla.ledger.invariants import Invariant

# Another cell has numbered some postings of a merchant that arrived here, and has counted them.
MARGIN = (
    Invariant(
        "margin_totals_equal_the_ledger",
        "What was earned and what providers took is the sum of the entries in the accounts of "
        "commissions, payout fees and providers' fees, up to the last posting in the totals.",
        f"""SELECT merchant_id, environment, currency, t.earned, t.paid, e.earned AS earned_entries,
                  e.paid AS paid_entries
             FROM (SELECT merchant_id, environment::text, currency::text,
                          sum(earned_minor) AS earned, sum(paid_minor) AS paid
                     FROM margin_day GROUP BY 1, 2, 3) AS t
             FULL JOIN (SELECT merchant_id, environment::text, currency::text,
                               sum(amount_minor) FILTER (
                                   WHERE account IN ('{posting.COMMISSION}',
                                                     '{posting.PAYOUT_FEE}')) AS earned,
                               -sum(amount_minor) FILTER (
                                   WHERE account ^@ '{posting.provider_fee("")}') AS paid
                          FROM entry
                         WHERE posting_id <= (SELECT last_id FROM margin_head)
                         GROUP BY 1, 2, 3) AS e USING (merchant_id, environment, currency)
            WHERE (coalesce(t.earned, 0), coalesce(t.paid, 0))
                  <> (coalesce(e.earned, 0), coalesce(e.paid, 0))
              AND NOT EXISTS (SELECT FROM posting_chain a WHERE a.merchant_id = e.merchant_id)
              AND NOT EXISTS (SELECT FROM merchant_fence f WHERE f.merchant_id = e.merchant_id)""",
    ),
)
