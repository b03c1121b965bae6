-- Returns the ids that belong to a transaction (`archive_ids`), if it can be archived, or else null.
-- A transaction can be archived if it has a final status, nothing about it is open, it has not
-- changed since `p_until`, and all its postings are in links up to `p_last_id`.
-- Transactions of merchants that are being moved or were moved to or from this cell are not archived.
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
    v_ids := archive_ids(p_merchant_id, p_trx_id, p_until);
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
