"""Invariants about fee invoices."""

from manilla.invoices.fees import IS_FEE
from manilla.ledger.invariants import Invariant

INVOICES: tuple[Invariant, ...] = (
    Invariant(
        "invoices_equal_the_ledger",
        "The invoices and credit notes of a merchant's month add up to the fees and taxes in the "
        "ledger, account by account. Months with archived postings are skipped.",
        f"""SELECT merchant_id, month, currency, account, i.minor AS invoiced, e.minor AS booked
             FROM (SELECT i.merchant_id, i.month, i.currency::text, line ->> 'account' AS account,
                          sum((line ->> 'minor')::bigint) AS minor
                     FROM fee_invoice i CROSS JOIN jsonb_array_elements(i.lines) AS line
                    GROUP BY i.merchant_id, i.month, i.currency, line ->> 'account') AS i
             FULL JOIN (SELECT e.merchant_id, m.month, e.currency::text, e.account::text,
                               sum(e.amount_minor) AS minor
                          FROM (SELECT DISTINCT merchant_id, month, currency FROM fee_invoice) AS m
                          JOIN posting p
                            ON p.merchant_id = m.merchant_id AND p.currency = m.currency
                           AND p.environment = 'production'
                           AND p.posted_at >= m.month::timestamp AT TIME ZONE 'Africa/Lagos'
                           AND p.posted_at < (m.month + interval '1 month') AT TIME ZONE
                                             'Africa/Lagos'
                          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
                         WHERE {IS_FEE}
                         GROUP BY e.merchant_id, m.month, e.currency, e.account) AS e
                  USING (merchant_id, month, currency, account)
            WHERE coalesce(i.minor, 0) <> coalesce(e.minor, 0)
              AND NOT EXISTS (SELECT FROM archive_month a
                               WHERE a.removed_at IS NOT NULL
                                 AND a.month + interval '1 month' > month)""",
    ),
    Invariant(
        "invoices_add_up",
        "The total of each invoice is the sum of its lines.",
        """SELECT i.merchant_id, i.number, i.amount_minor, l.minor
             FROM fee_invoice i
            CROSS JOIN LATERAL (SELECT coalesce(sum((line ->> 'minor')::bigint), 0) AS minor
                                  FROM jsonb_array_elements(i.lines) AS line) AS l
            WHERE i.amount_minor <> l.minor""",
    ),
    Invariant(
        "invoice_numbers_have_no_gaps",
        "Each series of invoice numbers is complete: each number up to the last one exists once.",
        # Copies of merchants that live in another cell count too, because they have numbers of the
        # series, so this rule names the schema of the table.
        """SELECT s.prefix, s.serial, i.number, i.highest FROM invoice_series s
            CROSS JOIN LATERAL (SELECT count(DISTINCT t.serial) AS distinct, count(*) AS number,
                                       coalesce(max(t.serial), 0) AS highest
                                  FROM public.fee_invoice t WHERE t.prefix = s.prefix) AS i
            WHERE (i.distinct, i.number, i.highest) <> (s.serial, s.serial, s.serial)""",
    ),
)
