-- Debits a refund and returns the outcome of `ledger_post`, a reason of `merchant_hold`, or
-- `wallet_inactive`. It reads the merchant and the wallet while it holds the wallet's lock, so the
-- debit does not depend on an earlier check.
--
-- `p_amount_minor` is the amount that the customer gets. The commission account pays
-- `p_commission_minor` of this amount, or customer_credit pays `p_credit_minor` of it. The wallet
-- pays the rest. If an administrator refunds on the merchant's behalf (`p_on_behalf`), the status of
-- the merchant and of the wallet is not checked.
CREATE OR REPLACE FUNCTION refund_withdraw(
    p_merchant_id bigint, p_trx_id text, p_environment environment, p_currency text,
    p_amount_minor bigint, p_commission_minor bigint, p_credit_minor bigint, p_reason text,
    p_on_behalf boolean)
RETURNS text
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    wallet_status text;
    hold text;
BEGIN
    IF p_commission_minor > 0 AND p_credit_minor > 0 THEN
        RAISE EXCEPTION 'A refund returns either a commission or customer credit.';
    END IF;
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
        SELECT outcome FROM ledger_post_locked(
               ARRAY[0], ARRAY[p_merchant_id], ARRAY[p_trx_id], ARRAY['refund'],
               ARRAY[p_environment::text], ARRAY[p_currency], ARRAY[p_reason],
               ARRAY[p_commission_minor + p_credit_minor - p_amount_minor],
               ARRAY[1, 1, 1], ARRAY['in_flight', 'commission', 'customer_credit'],
               ARRAY[p_amount_minor, -p_commission_minor, -p_credit_minor]));
END $$;
