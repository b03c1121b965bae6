-- Locks the payouts of the items, and returns the items whose delivery nothing disputes: the payout is
-- as the caller has seen it (`seen`), and no signed webhook contradicts the delivery.
--
-- Payouts are locked in sorted order, so statements cannot deadlock. Returns the fences of their jobs,
-- which an event raises: a job is deleted only if no event arrives after this check.
CREATE OR REPLACE FUNCTION payouts_undisputed(
    p_items jsonb, OUT numbers integer[], OUT fences bigint[]
)
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan  -- see `ledger_post_locked`
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
BEGIN
    PERFORM FROM (
            SELECT g.merchant_id, g.trx_id
              FROM jsonb_to_recordset(p_items) AS g (merchant_id bigint, trx_id text)
             ORDER BY g.merchant_id, g.trx_id) AS k
      CROSS JOIN LATERAL (
            SELECT FROM payout p
             WHERE p.merchant_id = k.merchant_id AND p.trx_id = k.trx_id
               FOR NO KEY UPDATE) AS locked;

    -- This new statement sees what the previous holders of these locks have committed.
    SELECT array_agg(g.item), array_agg(j.fence) INTO numbers, fences
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, amount numeric, currency text,
           seen jsonb, kind text)
     CROSS JOIN LATERAL (
           SELECT payout.status, payout.provider, payout.session_id, payout.provider_fee_minor,
                  coalesce(payout.accepted_reference, payout.provider_reference)
                  AS provider_reference FROM payout
            WHERE payout.merchant_id = g.merchant_id AND payout.trx_id = g.trx_id
            LIMIT 1) AS p
      -- No item has a kind. Without this column, the kind would be a constant, and the planner would
      -- use the partial index of this kind instead of the key.
      LEFT JOIN LATERAL (
           SELECT job.fence FROM job
            WHERE job.merchant_id = g.merchant_id AND job.kind = coalesce(g.kind, 'transfer')
              AND job.subject = g.trx_id
            LIMIT 1) AS j ON true
     WHERE to_jsonb(p) @> g.seen
       AND NOT EXISTS (
           SELECT FROM contradicting_webhooks(g.merchant_id, g.trx_id, 'transfer', p.provider,
                                              'delivered', g.amount, g.currency));
END $$;
