-- Returns all rows of a transaction as one JSON object: each table's name with an array of its rows.
-- `p_ids` are the ids that `archivable` returns.
CREATE OR REPLACE FUNCTION archive_rows(p_merchant_id bigint, p_ids text[])
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = public, pg_temp
SET enable_seqscan = off
-- Planning the statement for each transaction takes longer than executing it.
SET plan_cache_mode = force_generic_plan
AS $$
    WITH posted AS MATERIALIZED (
        SELECT * FROM posting WHERE merchant_id = p_merchant_id AND trx_id = ANY (p_ids))
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'payment', (SELECT jsonb_agg(to_jsonb(t)) FROM payment t
                     WHERE t.merchant_id = p_merchant_id AND t.trx_id = p_ids[1]),
        'payout', (SELECT jsonb_agg(to_jsonb(t)) FROM payout t
                    WHERE t.merchant_id = p_merchant_id AND t.trx_id = p_ids[1]),
        'charge', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.number) FROM charge t
                    WHERE t.merchant_id = p_merchant_id AND t.trx_id = p_ids[1]),
        'refund', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.trx_id) FROM refund t
                    WHERE t.merchant_id = p_merchant_id AND t.payment_trx_id = p_ids[1]),
        'payout_attempt', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.number) FROM payout_attempt t
                            WHERE t.merchant_id = p_merchant_id AND t.trx_id = p_ids[1]),
        'timeline', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.at, t.number) FROM timeline t
                      WHERE t.merchant_id = p_merchant_id AND t.trx_id = ANY (p_ids)),
        'notification', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.id) FROM notification t
                          WHERE t.merchant_id = p_merchant_id AND t.trx_id = ANY (p_ids)),
        'posting', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.id) FROM posted t),
        'entry', (SELECT jsonb_agg(to_jsonb(t) ORDER BY t.posting_id, t.line) FROM entry t
                   WHERE t.merchant_id = p_merchant_id
                     AND t.posting_id = ANY (ARRAY(SELECT id FROM posted))),
        'clearing_movement', (
            SELECT jsonb_agg(to_jsonb(t) ORDER BY t.posting_id) FROM clearing_movement t
             WHERE t.merchant_id = p_merchant_id
               AND t.posting_id = ANY (ARRAY(SELECT id FROM posted)))))
$$;
