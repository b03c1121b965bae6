-- Debits a refund from its wallet and answers what happened: `ledger_post`'s outcome, one of
-- `merchant_hold`'s reasons, or `wallet_inactive`. The merchant and the wallet are read under the
-- wallet's lock: nothing that was checked earlier permits a debit.
--
-- `p_amount_minor` is what the customer gets; of it the commission account bears
-- `p_commission_minor`. An administrator who refunds in the merchant's place (`p_on_behalf`) may do
-- so whatever the merchant's or the wallet's status is.
CREATE OR REPLACE FUNCTION refund_debit(
    p_merchant_id bigint, p_trx_id text, p_environment environment, p_currency text,
    p_amount_minor bigint, p_commission_minor bigint, p_reason text, p_on_behalf boolean)
RETURNS text
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    wallet_status text;
    hold text;
BEGIN
    SELECT w.status INTO wallet_status FROM wallet w
     WHERE w.merchant_id = p_merchant_id
       AND w.environment = p_environment AND w.currency = p_currency
       FOR NO KEY UPDATE;
    IF NOT p_on_behalf THEN
        hold := merchant_hold(p_merchant_id, p_environment);
        IF hold IS NOT NULL THEN
            RETURN hold;
        ELSIF wallet_status IS DISTINCT FROM 'active' THEN
            RETURN 'wallet_inactive';
        END IF;
    END IF;
    RETURN (
        SELECT outcome FROM ledger_post(
               ARRAY[0], ARRAY[p_merchant_id], ARRAY[p_trx_id], ARRAY['refund'],
               ARRAY[p_environment::text], ARRAY[p_currency], ARRAY[p_reason],
               ARRAY[p_commission_minor - p_amount_minor],
               ARRAY['in_flight'], ARRAY[p_amount_minor],
               ARRAY[CASE WHEN p_commission_minor > 0 THEN 'commission' END],
               ARRAY[nullif(-p_commission_minor, 0)]));
END $$;
