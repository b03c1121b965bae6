-- Completes delivered payouts of any merchants: writes status, ledger postings, timeline and
-- notification. Returns the completed items. Skips an item, and changes nothing for it, in these
-- cases:
--   - the payout has ended, or is on another rail
--   - a signed webhook contradicts the delivery, its amount or its currency
--   - another rail sent a signed webhook that does not report a failure, so it may have paid too
--   - the provider's references have changed, so the notification would lack the new references
--
-- Payouts are locked in sorted order, so statements cannot deadlock. A payout's job is deleted only if
-- no event has arrived since the webhooks were checked: otherwise a worker must still handle the event.
CREATE OR REPLACE FUNCTION payout_deliver(p_items jsonb) RETURNS TABLE (item integer)
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan  -- see `ledger_post_locked`
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    undisputed integer[];
    checked_merchant_ids bigint[];
    checked_trx_ids text[];
    checked_fences bigint[];
    merchant_ids bigint[];
    trx_ids text[];
    environments text[];
    currencies text[];
    amounts bigint[];
    providers text[];
    fees bigint[];
    number integer;
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
    SELECT array_agg(g.item), array_agg(g.merchant_id), array_agg(g.trx_id), array_agg(j.fence)
      INTO undisputed, checked_merchant_ids, checked_trx_ids, checked_fences
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, provider text, amount numeric,
           known jsonb, kind text)
     CROSS JOIN LATERAL (
           SELECT payout.status, payout.provider, payout.session_id, payout.currency,
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
     WHERE p.status = 'pending' AND p.provider = g.provider
       AND g.known = jsonb_build_object('provider_reference', p.provider_reference,
                                        'session_id', p.session_id)
       AND NOT EXISTS (
           SELECT FROM webhook w
            WHERE w.merchant_id + 0 = g.merchant_id  -- only the index by reference fits
              AND w.reference = ANY (ARRAY[g.trx_id])
              AND w.kind = 'transfer'
              AND CASE WHEN w.provider <> g.provider
                       THEN w.claimed_status IS DISTINCT FROM 'failed'
                       ELSE coalesce(w.claimed_status, 'delivered') <> 'delivered'
                            OR coalesce(w.claimed_amount, g.amount) <> g.amount
                            OR coalesce(w.claimed_currency, p.currency) <> p.currency END);
    IF undisputed IS NULL THEN
        RETURN;
    END IF;

    WITH changed AS (
        UPDATE payout p
           SET status = 'completed', updated_at = now(),
               provider_fee_minor = coalesce(g.provider_fee_minor, p.provider_fee_minor),
               provider_reference = g.provider_reference, session_id = g.session_id,
               accepted_reference = NULL
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, trx_id text, provider_reference text,
               provider_fee_minor bigint, session_id text)
         WHERE g.item = ANY (undisputed)
           AND p.merchant_id = ANY (ARRAY[g.merchant_id]) AND p.trx_id = g.trx_id
        RETURNING p.merchant_id, p.trx_id, p.environment::text, p.currency, p.amount_minor, p.provider,
                  coalesce(p.provider_fee_minor, 0) AS fee_minor)
    SELECT array_agg(merchant_id), array_agg(trx_id), array_agg(environment), array_agg(currency),
           array_agg(amount_minor), array_agg(provider), array_agg(fee_minor), count(*)
      INTO merchant_ids, trx_ids, environments, currencies, amounts, providers, fees, number
      FROM changed;
    IF number <> cardinality(undisputed) THEN
        RAISE EXCEPTION 'A payout is twice in the items.';
    END IF;

    PERFORM ledger_write(
        array_agg(nextval('posting_id_seq')), array_agg(g.merchant_id), array_agg(g.trx_id),
        array_agg(g.kind), array_agg(g.environment), array_agg(g.currency),
        array_agg(NULL::text), array_agg(NULL::tid), array_agg(0::bigint), array_agg(NULL::bigint),
        array_agg(g.item) || array_agg(g.item), array_agg(g.account) || array_agg(g.other),
        array_agg(g.minor) || array_agg(-g.minor))
      FROM (SELECT u.*, line.*, row_number() OVER ()::integer AS item
              FROM unnest(merchant_ids, trx_ids, environments, currencies, amounts, providers, fees)
                   AS u (merchant_id, trx_id, environment, currency, amount_minor, provider,
                         fee_minor)
             CROSS JOIN LATERAL (VALUES
                   ('payout_delivered', 'in_flight', -u.amount_minor, 'clearing:' || u.provider),
                   ('payout_provider_fee', 'clearing:' || u.provider, u.fee_minor,
                    'provider_fee:' || u.provider)) AS line (kind, account, minor, other)
             WHERE line.minor <> 0) AS g;

    DELETE FROM job
     USING unnest(checked_merchant_ids, array_fill('transfer'::text, ARRAY[number]),
                  checked_trx_ids, checked_fences) AS u (merchant_id, kind, trx_id, fence)
     WHERE job.merchant_id = ANY (ARRAY[u.merchant_id]) AND job.kind = u.kind
       AND job.subject = u.trx_id AND job.fence = u.fence;

    PERFORM outcomes_write(p_items, undisputed);
    RETURN QUERY SELECT unnest(undisputed);
END $$;
