-- Whether a signed webhook contradicts what a provider reports about a transfer or a charge: its
-- status, amount or currency. The caller sets the planner options that `ledger_post_locked` explains.
-- A webhook of another provider contradicts it unless it reports a
-- failure, because that provider may have paid too.
CREATE OR REPLACE FUNCTION webhook_contradicts(
    p_merchant_id bigint, p_reference text, p_kind text, p_provider text, p_status text,
    p_amount numeric, p_currency text
) RETURNS boolean
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM webhook w
         WHERE w.merchant_id + 0 = p_merchant_id  -- only the index by reference fits
           AND w.reference = ANY (ARRAY[p_reference])
           AND w.kind = p_kind
           AND CASE WHEN w.provider <> p_provider
                    THEN w.claimed_status IS DISTINCT FROM 'failed'
                    ELSE coalesce(w.claimed_status, p_status) <> p_status
                         OR coalesce(w.claimed_amount, p_amount) <> p_amount
                         OR coalesce(w.claimed_currency, p_currency) <> p_currency END);
END $$;
