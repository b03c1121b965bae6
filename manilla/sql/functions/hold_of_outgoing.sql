-- Returns a row with the reason why this merchant's payouts and refunds must not be sent now, or with
-- null if they may be sent. Every statement that marks a payout or a refund as being sent reads it.
--   payouts_held          all payouts and refunds are on hold (production only)
--   or a reason of `hold_of_merchant`, unless an administrator ordered the refund (`p_on_behalf`)
--
-- Like `hold_of_merchant`, this function is part of the plan of the statement that calls it.
CREATE OR REPLACE FUNCTION hold_of_outgoing(
    p_merchant_id bigint, p_environment environment, p_on_behalf boolean)
RETURNS TABLE (reason text)
LANGUAGE sql STABLE
AS $$
    SELECT CASE
           WHEN p_environment = 'production' AND EXISTS (
                SELECT FROM setting s WHERE s.key = 'payouts_held' AND s.value = 'true')
                THEN 'payouts_held'
           WHEN NOT p_on_behalf
                THEN (SELECT m.reason FROM hold_of_merchant(p_merchant_id, p_environment) AS m)
           END
$$;
