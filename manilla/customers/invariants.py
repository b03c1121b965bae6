"""Ledger invariants about customers' accounts and the transfers into them."""

from manilla.ledger.invariants import Invariant

CUSTOMERS: tuple[Invariant, ...] = (
    Invariant(
        "account_transfers_are_received_once",
        "No transfer into a customer's account was received twice, also not by two merchants.",
        """SELECT provider, reference, count(*) AS received FROM account_transfer
            GROUP BY provider, reference HAVING count(*) > 1""",
    ),
    Invariant(
        "account_payments_have_their_transfer",
        "Each payment into a customer's account has its transfer and one charge, and belongs to "
        "the account's customer.",
        """SELECT p.merchant_id, p.trx_id, p.account_id, p.customer_reference, t.reference,
                  c.charges
             FROM payment p
             LEFT JOIN account_transfer t ON t.merchant_id = p.merchant_id AND t.trx_id = p.trx_id
             LEFT JOIN customer_account a ON a.merchant_id = p.merchant_id AND a.id = p.account_id
             LEFT JOIN customer u ON u.merchant_id = a.merchant_id AND u.id = a.customer_id
            CROSS JOIN LATERAL (
                  SELECT count(*) AS charges,
                         bool_and(h.their_reference = t.reference AND h.provider = t.provider)
                         AS is_same
                    FROM charge h WHERE h.merchant_id = p.merchant_id AND h.trx_id = p.trx_id) AS c
            WHERE p.account_id IS NOT NULL
              AND (t.account_id IS DISTINCT FROM p.account_id OR c.charges <> 1
                   OR c.is_same IS NOT TRUE OR p.status = 'pending'
                   OR u.environment IS DISTINCT FROM p.environment
                   OR u.reference IS DISTINCT FROM p.customer_reference)""",
    ),
    Invariant(
        "account_numbers_belong_to_one_customer",
        "No two active accounts have the same number at one provider, except in the sandbox.",
        """SELECT provider, account_number, count(*) AS accounts FROM customer_account
            WHERE status = 'active' AND provider <> 'sandbox'
            GROUP BY provider, account_number HAVING count(*) > 1""",
    ),
    Invariant(
        "open_accounts_have_a_job",
        "Each pending account, and each active account at a provider, has a job.",
        """SELECT a.merchant_id, a.id, a.status FROM customer_account a
            WHERE (a.status = 'pending' OR (a.status = 'active' AND a.provider <> 'sandbox'))
              AND NOT EXISTS (
                  SELECT FROM job j
                   WHERE j.merchant_id = a.merchant_id AND j.subject = a.id
                     AND j.kind = 'account')""",
    ),
)
