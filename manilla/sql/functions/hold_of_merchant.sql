-- Returns a row with the reason why this merchant is not allowed to send money, or with null if it is
-- allowed. Reads the tables, so no decision about money depends on cached data.
--   merchant_disabled     the merchant is disabled
--   merchant_rejected     the merchant's application was rejected
--   merchant_pending      the merchant is not approved yet (production only)
--   merchant_payouts_off  payouts are disabled for the merchant
--   withdrawals_off       withdrawals are disabled for the whole platform
--
-- The planner replaces a call of this function in `FROM` by its query. A call of the function
-- `merchant_hold`, which returns the same reason, takes several times as long.
CREATE OR REPLACE FUNCTION hold_of_merchant(p_merchant_id bigint, p_environment environment)
RETURNS TABLE (reason text)
LANGUAGE sql STABLE
AS $$
    SELECT CASE
           WHEN m.status = 'disabled' THEN 'merchant_disabled'
           WHEN m.status = 'rejected' THEN 'merchant_rejected'
           WHEN m.status = 'pending' AND p_environment = 'production' THEN 'merchant_pending'
           WHEN NOT m.payouts_enabled THEN 'merchant_payouts_off'
           WHEN EXISTS (
                SELECT FROM setting s WHERE s.key = 'withdrawals_enabled' AND s.value = 'false')
                THEN 'withdrawals_off'
           END
      FROM merchant m
     WHERE m.id = p_merchant_id
$$;
