-- Returns the ids that belong to a payment or a payout, if it can be archived, or else null. The ids
-- are those of the transaction, its commission, its charges and its refunds.
-- A transaction can be archived if it has a final status, nothing about it is open, it has not
-- changed since `p_until`, and all its postings are in links up to `p_last_id`.
-- Transactions of merchants that are being moved or were moved to or from this cell are not archived.
-- Payouts of settlements are not archived, because settlements refer to them.
CREATE OR REPLACE FUNCTION archivable(
    p_merchant_id bigint, p_trx_id text, p_last_id bigint, p_until timestamptz)
RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = public, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan  -- see `archive_rows`
AS $$
DECLARE
    v_ids text[];
BEGIN
    IF EXISTS (SELECT FROM merchant_fence f WHERE f.merchant_id = p_merchant_id)
       OR EXISTS (SELECT FROM posting_chain a WHERE a.merchant_id = p_merchant_id) THEN
        RETURN NULL;
    END IF;
    SELECT ARRAY[p.trx_id] INTO v_ids
      FROM payout p
     WHERE p.merchant_id = p_merchant_id AND p.trx_id = p_trx_id
       AND p.status <> 'pending' AND p.updated_at < p_until
       AND NOT EXISTS (SELECT FROM settlement s
                        WHERE s.merchant_id = p.merchant_id AND s.trx_id = p.trx_id);
    IF v_ids IS NULL THEN
        SELECT array_remove(ARRAY[p.trx_id, p.commission_trx_id], NULL)
               || ARRAY(SELECT c.reference FROM charge c
                         WHERE c.merchant_id = p.merchant_id AND c.trx_id = p.trx_id)
               || ARRAY(SELECT r.trx_id FROM refund r
                         WHERE r.merchant_id = p.merchant_id AND r.payment_trx_id = p.trx_id)
          INTO v_ids
          FROM payment p
         WHERE p.merchant_id = p_merchant_id AND p.trx_id = p_trx_id
           AND p.status <> 'pending' AND p.updated_at < p_until
           AND NOT EXISTS (SELECT FROM charge c
                            WHERE c.merchant_id = p.merchant_id AND c.trx_id = p.trx_id
                              AND (c.status IN ('opening', 'open', 'part', 'suspense')
                                   OR c.credit_minor <> 0 OR c.updated_at >= p_until))
           AND NOT EXISTS (SELECT FROM refund r
                            WHERE r.merchant_id = p.merchant_id AND r.payment_trx_id = p.trx_id
                              AND (r.status = 'pending' OR r.updated_at >= p_until));
    END IF;
    IF EXISTS (SELECT FROM posting p
                WHERE p.merchant_id = p_merchant_id AND p.trx_id = ANY (v_ids)
                  AND p.id > p_last_id)
       OR EXISTS (SELECT FROM timeline t
                   WHERE t.merchant_id = p_merchant_id AND t.trx_id = ANY (v_ids)
                     AND t.at >= p_until)
       OR EXISTS (SELECT FROM job j
                   WHERE j.merchant_id = p_merchant_id AND j.subject = ANY (v_ids))
       OR EXISTS (SELECT FROM operator_case o
                   WHERE o.merchant_id = p_merchant_id AND o.reference = ANY (v_ids)
                     AND o.status = 'open')
       OR EXISTS (SELECT FROM operator_case o
                   WHERE o.merchant_id = p_merchant_id AND o.trx_id = ANY (v_ids)
                     AND o.status = 'open')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_ids;
END $$;
