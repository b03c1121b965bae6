-- Returns why this merchant's payouts and refunds must not be sent now, or null if they may be sent.
-- Every statement that marks a payout or a refund as being sent calls this function.
--   payouts_held          all payouts and refunds are on hold (production only)
--   or a reason of `merchant_hold`, unless an administrator ordered the refund (`p_on_behalf`)
CREATE OR REPLACE FUNCTION outgoing_hold(
    p_merchant_id bigint, p_environment environment, p_on_behalf boolean)
RETURNS text
LANGUAGE sql STABLE
AS $$
    SELECT CASE
           WHEN p_environment = 'production' AND EXISTS (
                SELECT FROM setting s WHERE s.key = 'payouts_held' AND s.value = 'true')
                THEN 'payouts_held'
           WHEN NOT p_on_behalf THEN merchant_hold(p_merchant_id, p_environment)
           END
$$;
