-- Locks the payments of the items, and returns the items whose charge nothing disputes: payment and
-- charge are as the caller has seen them, and no signed webhook contradicts the payment.
--
-- Payments are locked in sorted order, so statements cannot deadlock. Returns no fences: the jobs of a
-- paid payment are deleted in any case.
CREATE OR REPLACE FUNCTION payments_undisputed(
    p_items jsonb, OUT numbers integer[], OUT fences bigint[]
)
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan  -- see `ledger_post_locked`
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
AS $$
BEGIN
    PERFORM FROM (
            SELECT g.merchant_id, g.trx_id
              FROM jsonb_to_recordset(p_items) AS g (merchant_id bigint, trx_id text)
             ORDER BY g.merchant_id, g.trx_id) AS k
      CROSS JOIN LATERAL (
            SELECT FROM payment p
             WHERE p.merchant_id = k.merchant_id AND p.trx_id = k.trx_id
               FOR UPDATE) AS locked;

    -- This new statement sees what the previous holders of these locks have committed.
    SELECT array_agg(g.item) INTO numbers
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, amount numeric, currency text,
           charge_key text, seen jsonb, charge_seen jsonb)
     CROSS JOIN LATERAL (
           SELECT payment.status, payment.error_code, payment.amount_minor,
                  payment.received_minor, payment.refunded_minor, payment.link_id
             FROM payment
            WHERE payment.merchant_id = g.merchant_id
              AND payment.trx_id BETWEEN g.trx_id AND g.trx_id
            ORDER BY payment.trx_id  -- only the primary key has this order
            LIMIT 1) AS p
     CROSS JOIN LATERAL (
           SELECT charge.reference, charge.provider, charge.status, charge.amount_minor,
                  charge.credit_minor
             FROM charge
            WHERE charge.merchant_id = g.merchant_id
              AND charge.reference BETWEEN g.charge_key AND g.charge_key
            ORDER BY charge.reference  -- only the primary key has this order
            LIMIT 1) AS c
     WHERE to_jsonb(p) @> g.seen AND to_jsonb(c) @> g.charge_seen
       AND NOT EXISTS (
           SELECT FROM contradicting_webhooks(g.merchant_id, c.reference, 'charge', c.provider,
                                              'paid', g.amount, g.currency));
END $$;
