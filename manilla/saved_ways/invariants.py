"""Invariants about saved ways to pay and their charges."""

from manilla.job_kinds import JobKind
from manilla.ledger.invariants import Invariant

SAVED_WAYS: tuple[Invariant, ...] = (
    Invariant(
        "saved_ways_are_charged_once",
        "A payment that charges a saved way has at most one charge, with the account, customer and "
        "environment of the way.",
        """SELECT p.merchant_id, p.trx_id, count(*) AS charges
             FROM payment p
             JOIN charge c ON c.merchant_id = p.merchant_id AND c.trx_id = p.trx_id
             LEFT JOIN saved_way w ON w.merchant_id = c.merchant_id AND w.id = c.way_id
            WHERE p.saved_way IS NOT NULL AND NOT p.saves_way
            GROUP BY p.merchant_id, p.trx_id
           HAVING count(*) > 1
               OR bool_or((w.provider, w.environment, w.customer_reference)
                          IS DISTINCT FROM (c.provider, p.environment, p.customer_reference))""",
    ),
    Invariant(
        "saved_ways_have_consent",
        "Each usable way has the customer's consent, with its time. A card has the payment that "
        "saved it.",
        """SELECT w.merchant_id, w.id, w.status FROM saved_way w
            WHERE w.status = 'active'
              AND (w.consented_at IS NULL OR w.consent_text = ''
                   OR (w.kind = 'card') <> (w.payment_trx_id IS NOT NULL))""",
    ),
    Invariant(
        "tokens_of_ended_ways_are_deleted",
        "Each ended way that still has a token has a job that deletes the token.",
        f"""SELECT w.merchant_id, w.id, w.status FROM saved_way w
            WHERE w.status IN ('revoked', 'expired', 'unusable', 'failed')
              AND w.token_sealed IS NOT NULL AND NOT EXISTS (
                  SELECT FROM job j
                   WHERE j.merchant_id = w.merchant_id AND j.subject = w.id
                     AND j.kind = '{JobKind.SAVED_WAY}')""",
    ),
)
