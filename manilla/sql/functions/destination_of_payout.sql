-- Returns a row that says whether a payout still has the destination with which it was accepted
-- (`payout_destination`). Without its posting, the payout has no destination.
--
-- Payouts from before `destination_epoch` have no digest. Neither have payouts that were accepted by
-- the previous version in another cell, and arrived from there: a link of the hash chain covers them.
--
-- Like `hold_of_merchant`, this function is part of the plan of the statement that calls it.
CREATE OR REPLACE FUNCTION destination_of_payout(
    p_merchant_id bigint, p_trx_id text, p_destination text)
RETURNS TABLE (is_unchanged boolean)
LANGUAGE sql STABLE
AS $$
    SELECT CASE
           WHEN p.reason IS NOT NULL THEN p.reason = p_destination
           ELSE p.posted_at < (SELECT e.since FROM destination_epoch e) OR EXISTS (
                SELECT FROM posting_chain a
                 WHERE a.merchant_id = p.merchant_id AND p.id BETWEEN a.first_id AND a.last_id)
           END
      FROM posting p
     WHERE p.merchant_id = p_merchant_id AND p.trx_id = p_trx_id AND p.kind = 'payout'
     LIMIT 1
$$;
