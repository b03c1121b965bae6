"""Ledger invariants about payments, their charges and their refunds."""

from manilla.job_kinds import JobKind
from manilla.ledger.invariants import Invariant
from manilla.posting_kinds import PostingKind, in_sql, kind_of
from manilla.prices.columns import OF_INCOME, taxes

_COMMISSION = PostingKind.PAYMENT, PostingKind.COMMISSION
_SUSPENSE = PostingKind.SUSPENSE, PostingKind.SUSPENSE_RELEASED
_BESIDE_REFUNDS = PostingKind.SHORT_PAID, PostingKind.REFUND_COMMISSION
_REFUND = PostingKind.REFUND, PostingKind.REFUND_RETURNED

PAYMENTS: tuple[Invariant, ...] = (
    Invariant(
        "paid_payments_are_credited_once",
        "Each successful payment has exactly one credit of its amount. Other payments have none.",
        f"""SELECT p.merchant_id, p.trx_id, p.status, p.amount_minor, e.amount_minor AS credited
             FROM payment p
             FULL JOIN (SELECT g.merchant_id, g.trx_id, e.amount_minor
                          FROM posting g
                          JOIN entry e ON e.merchant_id = g.merchant_id AND e.posting_id = g.id
                         WHERE g.kind = '{PostingKind.PAYMENT}' AND e.account = 'wallet') AS e
                  USING (merchant_id, trx_id)
            WHERE CASE WHEN p.status = 'success' THEN p.amount_minor END
                  IS DISTINCT FROM e.amount_minor""",
    ),
    Invariant(
        "commission_follows_its_rule_once",
        "Each successful payment's commission is posted exactly once, according to who pays it.",
        f"""WITH booked AS (
             SELECT g.merchant_id, g.trx_id, g.kind, sum(e.amount_minor) AS minor
               FROM posting g
               JOIN entry e ON e.merchant_id = g.merchant_id AND e.posting_id = g.id
              WHERE g.kind IN {in_sql(_COMMISSION)} AND e.account = 'commission'
              GROUP BY g.merchant_id, g.trx_id, g.kind)
           SELECT p.merchant_id, p.trx_id, p.commission_bearer, p.commission_minor,
                  coalesce(w.minor, 0) + coalesce(s.minor, 0) AS booked
             FROM payment p
             LEFT JOIN booked w ON w.merchant_id = p.merchant_id AND w.trx_id = p.trx_id
                  AND w.kind = '{PostingKind.PAYMENT}'
             LEFT JOIN booked s ON s.merchant_id = p.merchant_id
                  AND s.trx_id = p.commission_trx_id AND s.kind = '{PostingKind.COMMISSION}'
            WHERE coalesce(w.minor, 0) + coalesce(s.minor, 0) <> CASE
                  WHEN p.status <> 'success' THEN 0
                  WHEN p.commission_bearer = 'merchant' AND p.environment = 'sandbox' THEN 0
                  ELSE p.commission_minor - {taxes("p", OF_INCOME)} END""",
    ),
    Invariant(
        "no_charge_is_credited_twice",
        "No charge is credited to two payments, or both credited and in the suspense account.",
        """SELECT c.merchant_id, c.reference, c.status, coalesce(p.payments, 0) AS payments
             FROM charge c
             LEFT JOIN (SELECT merchant_id, credited_charge, count(*) AS payments
                          FROM payment GROUP BY merchant_id, credited_charge) AS p
                  ON p.merchant_id = c.merchant_id AND p.credited_charge = c.reference
            WHERE coalesce(p.payments, 0) <> (c.status = 'paid')::integer""",
    ),
    Invariant(
        "received_amounts_are_what_charges_received",
        "If a rule for wrong amounts was applied to a payment, its received amount is the sum of "
        "its accepted charges. A successful payment has received at least the amount due.",
        """SELECT p.merchant_id, p.trx_id, p.status, p.received_minor, c.minor AS of_charges
             FROM payment p
             LEFT JOIN (SELECT merchant_id, trx_id, sum(paid_minor) AS minor,
                               bool_or(status = 'part') AS has_part
                          FROM charge WHERE status IN ('paid', 'part')
                         GROUP BY merchant_id, trx_id) AS c
                  USING (merchant_id, trx_id)
            WHERE p.received_minor <> coalesce(c.minor, 0)
               OR (p.received_minor IS NULL AND c.has_part)
               OR (p.status = 'success' AND p.received_minor < p.amount_minor
                   + p.customer_tax_minor
                   + CASE p.commission_bearer WHEN 'customer' THEN p.commission_minor
                     ELSE 0 END)""",
    ),
    Invariant(
        "suspense_is_what_charges_left_there",
        "The postings of a charge to the suspense account are its held money, the money that "
        "arrived later, and customer credit that could not be refunded.",
        f"""SELECT c.merchant_id, c.reference, c.status, c.paid_minor, c.excess_minor, g.minor
             FROM charge c
             LEFT JOIN (SELECT p.merchant_id, p.trx_id, sum(e.amount_minor) AS minor
                          FROM posting p
                          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
                               AND e.account = 'suspense'
                         WHERE {kind_of("p.kind")} = '{PostingKind.SUSPENSE}'
                         GROUP BY p.merchant_id, p.trx_id) AS g
                  ON g.merchant_id = c.merchant_id AND g.trx_id = c.reference
             LEFT JOIN (SELECT merchant_id, charge_reference, sum(customer_credit_minor) AS minor
                          FROM refund WHERE customer_credit_minor > 0 AND status = 'failed'
                         GROUP BY merchant_id, charge_reference) AS r
                  ON r.merchant_id = c.merchant_id AND r.charge_reference = c.reference
            WHERE CASE WHEN c.status = 'suspense' THEN coalesce(c.paid_minor, 0) ELSE 0 END
                  + c.excess_minor + coalesce(r.minor, 0) <> coalesce(g.minor, 0)""",
    ),
    Invariant(
        "suspense_is_released_once",
        "No more money of a charge left the suspense account than was posted to it.",
        f"""SELECT p.merchant_id, p.trx_id, sum(e.amount_minor) AS minor
             FROM posting p
             JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
                  AND e.account = 'suspense'
            WHERE {kind_of("p.kind")} IN {in_sql(_SUSPENSE)}
            GROUP BY p.merchant_id, p.trx_id HAVING sum(e.amount_minor) < 0""",
    ),
    Invariant(
        "customer_credit_is_what_charges_have",
        "For each merchant, customer_credit equals the sum of the charges' customer credit.",
        """SELECT merchant_id, currency, e.minor AS booked, c.minor AS of_charges
             FROM (SELECT merchant_id, currency, sum(amount_minor) AS minor FROM entry
                    WHERE account = 'customer_credit' GROUP BY merchant_id, currency) AS e
             FULL JOIN (SELECT merchant_id, currency, sum(credit_minor) AS minor FROM charge
                         WHERE credit_minor <> 0 GROUP BY merchant_id, currency) AS c
                  USING (merchant_id, currency)
            WHERE coalesce(e.minor, 0) <> coalesce(c.minor, 0)""",
    ),
    Invariant(
        "customer_credit_is_returned",
        "If a payment that is not pending has customer credit, a job refunds the credit.",
        f"""SELECT c.merchant_id, c.reference, c.credit_minor, p.status
             FROM charge c
             JOIN payment p ON p.merchant_id = c.merchant_id AND p.trx_id = c.trx_id
            WHERE c.credit_minor <> 0 AND p.status <> 'pending' AND NOT EXISTS (
                  SELECT FROM job j
                   WHERE j.merchant_id = c.merchant_id AND j.subject = c.reference
                     AND j.kind = '{JobKind.RETURN}')""",
    ),
    Invariant(
        "suspense_has_its_case",
        "Each charge with money that was posted to the suspense account has a case.",
        """SELECT c.merchant_id, c.reference FROM charge c
            WHERE (c.status = 'suspense' OR c.excess_minor <> 0) AND NOT EXISTS (
                  SELECT FROM operator_case o
                   WHERE o.merchant_id = c.merchant_id AND o.reference = c.reference)""",
    ),
    Invariant(
        "final_payments_were_told",
        "Each final payment that has an ipn_url has a notification of its status, unless old "
        "notifications were deleted.",
        """SELECT p.merchant_id, p.trx_id, p.status, p.error_code FROM payment p
            WHERE p.status <> 'pending' AND p.ipn_url <> '' AND NOT EXISTS (
                  SELECT FROM deleted_notifications d
                   WHERE d.merchant_id = p.merchant_id AND d.until >= p.created_at)
              AND NOT EXISTS (
                  SELECT FROM notification n
                   WHERE n.merchant_id = p.merchant_id AND n.trx_id = p.trx_id
                     AND n.event IN ('payment', 'payment.success', 'payment.failed')
                     AND n.status = CASE
                         WHEN p.status = 'success' THEN 'completed'
                         WHEN p.error_code = 'PAYMENT_CANCELED' AND NOT p.is_legacy THEN 'canceled'
                         ELSE 'failed' END)""",
    ),
    Invariant(
        "open_payments_have_a_job",
        "Each pending payment has a job that expires or completes it.",
        f"""SELECT p.merchant_id, p.trx_id FROM payment p
            WHERE p.status = 'pending' AND NOT EXISTS (
                  SELECT FROM job j
                   WHERE j.merchant_id = p.merchant_id AND j.subject = p.trx_id
                     AND j.kind IN ('{JobKind.EXPIRE_PAYMENT}', '{JobKind.SANDBOX_PAYMENT}',
                                    '{JobKind.WAY_CHARGE}'))""",
    ),
    Invariant(
        "payment_history_is_gapless_and_legal",
        "A payment's timeline leads from pending to its status, without gaps or invalid changes.",
        """SELECT * FROM (
             SELECT p.merchant_id, p.trx_id, p.status, t.number, t.from_status, t.to_status,
                    row_number() OVER h AS expected,
                    lag(t.to_status, 1, 'pending') OVER h AS before,
                    lead(t.number) OVER h IS NULL AS is_last
               FROM payment p
               LEFT JOIN timeline t ON t.merchant_id = p.merchant_id AND t.trx_id = p.trx_id
             WINDOW h AS (PARTITION BY p.merchant_id, p.trx_id ORDER BY t.number)) AS history
            WHERE number <> expected OR from_status <> before
               OR (is_last AND coalesce(to_status, 'pending') <> status)
               OR (from_status, to_status) IN (('success', 'pending'), ('success', 'failed'),
                                               ('failed', 'pending'))""",
    ),
    Invariant(
        "refunds_were_debited_once",
        "Each refund has one debit. A completed refund also has a payment posting, and a failed "
        "refund has a return posting. If the provider paid as well, both can have a write-off.",
        f"""SELECT r.merchant_id, r.trx_id, r.status, g.kinds
             FROM refund r
            CROSS JOIN LATERAL (
                  SELECT array_agg(kind ORDER BY kind) AS kinds FROM posting
                   WHERE posting.merchant_id = r.merchant_id AND posting.trx_id = r.trx_id
                     AND NOT (kind = '{PostingKind.CASE_WRITE_OFF}' AND r.status <> 'pending')
                     AND {kind_of("kind")} NOT IN {in_sql(_BESIDE_REFUNDS)}) AS g
            WHERE g.kinds IS DISTINCT FROM CASE r.status
                  WHEN 'pending' THEN ARRAY['{PostingKind.REFUND}']
                  WHEN 'completed' THEN ARRAY['{PostingKind.REFUND}', '{PostingKind.REFUND_PAID}']
                  WHEN 'failed' THEN ARRAY['{PostingKind.REFUND}', '{PostingKind.REFUND_RETURNED}']
                  END""",
    ),
    Invariant(
        "refunds_are_as_accepted",
        "Each refund has the reason with which it was accepted, and returns a charge of its "
        "payment at the charge's provider.",
        f"""SELECT r.merchant_id, r.trx_id, r.status, r.reason, g.reason AS accepted,
                  r.charge_reference, c.trx_id AS charged
             FROM refund r
             JOIN posting g ON g.merchant_id = r.merchant_id AND g.trx_id = r.trx_id
                  AND g.kind = '{PostingKind.REFUND}'
             LEFT JOIN charge c ON c.merchant_id = r.merchant_id
                  AND c.reference = r.charge_reference
            WHERE g.reason IS DISTINCT FROM r.reason
               OR (r.charge_reference IS NOT NULL
                   AND (c.trx_id, c.provider) IS DISTINCT FROM (r.payment_trx_id, r.provider))""",
    ),
    Invariant(
        "refunds_are_not_above_what_was_paid",
        "A payment's refunded amount is the sum of its refunds that did not fail, without the "
        "commission, which is refunded at most once and only if the customer paid it.",
        """SELECT p.merchant_id, p.trx_id, p.refunded_minor, r.sum, r.commission
             FROM payment p
             FULL JOIN (SELECT merchant_id, payment_trx_id AS trx_id,
                               sum(amount_minor - commission_minor - customer_credit_minor) AS sum,
                               sum(commission_minor) AS commission
                          FROM refund WHERE status <> 'failed'
                         GROUP BY merchant_id, payment_trx_id) AS r
                  USING (merchant_id, trx_id)
            WHERE p.refunded_minor IS DISTINCT FROM coalesce(r.sum, 0)
               OR r.commission NOT IN (0, p.customer_tax_minor
                                          + CASE WHEN p.commission_bearer = 'customer'
                                                 THEN p.commission_minor ELSE 0 END)""",
    ),
    Invariant(
        "refunds_take_from_wallet_and_commission",
        "A refund debits its parts from the commission account, from customer credit and from "
        "the wallet. If the refund fails, the same amounts are credited back.",
        f"""SELECT r.merchant_id, r.trx_id, g.kind, e.account, e.amount_minor
             FROM refund r
             JOIN posting g ON g.merchant_id = r.merchant_id AND g.trx_id = r.trx_id
                  AND g.kind IN {in_sql(_REFUND)}
             JOIN entry e ON e.merchant_id = g.merchant_id AND e.posting_id = g.id
            WHERE e.amount_minor * CASE g.kind WHEN '{PostingKind.REFUND}' THEN -1 ELSE 1 END
                  IS DISTINCT FROM CASE e.account
                  WHEN 'wallet' THEN r.amount_minor - r.commission_minor
                                     - r.customer_credit_minor
                  WHEN 'customer_credit' THEN r.customer_credit_minor
                  WHEN 'commission' THEN r.commission_minor
                  WHEN 'in_flight' THEN -r.amount_minor END""",
    ),
    Invariant(
        "completed_refunds_were_told",
        "Each completed refund of a payment that has an ipn_url has a notification, unless old "
        "notifications were deleted.",
        """SELECT r.merchant_id, r.trx_id
             FROM refund r
             JOIN payment p ON p.merchant_id = r.merchant_id AND p.trx_id = r.payment_trx_id
            WHERE r.status = 'completed' AND p.ipn_url <> '' AND NOT EXISTS (
                  SELECT FROM deleted_notifications d
                   WHERE d.merchant_id = r.merchant_id AND d.until >= r.created_at)
              AND NOT EXISTS (
                  SELECT FROM notification n
                   WHERE n.merchant_id = r.merchant_id AND n.trx_id = r.payment_trx_id
                     AND n.event = 'refund'
                     AND convert_from(n.body, 'UTF8') LIKE '%' || r.trx_id || '%')""",
    ),
    Invariant(
        "payment_links_count_what_they_earned",
        "A payment link's count and sum equal those of its successful payments; a single-use link "
        "has at most one successful payment.",
        """SELECT l.merchant_id, l.id, l.paid_count, l.paid_minor, p.count, p.minor
             FROM payment_link l
            CROSS JOIN LATERAL (
                  SELECT count(*) AS count, coalesce(sum(amount_minor), 0) AS minor
                    FROM payment p
                   WHERE p.merchant_id = l.merchant_id AND p.link_id = l.id
                     AND p.status = 'success') AS p
            WHERE (l.paid_count - l.archived_count, l.paid_minor - l.archived_minor)
                  <> (p.count, p.minor)
               OR (l.single_use AND l.archived_count + p.count > 1)""",
    ),
)
