-- The providers of the signed webhooks that contradict what a provider reports about a transfer or a
-- charge: its status, amount or currency. A webhook of another provider contradicts it unless it
-- reports a failure, because that provider may have paid too.
--
-- PostgreSQL replaces calls of this function by its SQL, so it has no settings of its own. The caller
-- sets the planner options that `ledger_post_locked` explains.
CREATE OR REPLACE FUNCTION contradicting_webhooks(
    p_merchant_id bigint, p_reference text, p_kind text, p_provider text, p_status text,
    p_amount numeric, p_currency text
) RETURNS SETOF text
LANGUAGE sql STABLE
AS $$
    SELECT w.provider FROM webhook w
     WHERE w.merchant_id + 0 = p_merchant_id  -- only the index by reference fits
       AND w.reference = ANY (ARRAY[p_reference])
       AND w.kind = p_kind
       AND CASE WHEN w.provider <> p_provider
                THEN w.claimed_status IS DISTINCT FROM 'failed'
                ELSE coalesce(w.claimed_status, p_status) <> p_status
                     OR coalesce(w.claimed_amount, p_amount) <> p_amount
                     OR coalesce(w.claimed_currency, p_currency) <> p_currency END
$$;
