-- Only the previous version of the code, which has no refunds from customer_credit, calls this.
CREATE OR REPLACE FUNCTION refund_debit(
    p_merchant_id bigint, p_trx_id text, p_environment environment, p_currency text,
    p_amount_minor bigint, p_commission_minor bigint, p_reason text, p_on_behalf boolean)
RETURNS text
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    RETURN refund_withdraw(p_merchant_id, p_trx_id, p_environment, p_currency, p_amount_minor,
                           p_commission_minor, 0, p_reason, p_on_behalf);
END $$;
