-- Returns a row that says whether a refund returns the debited amount, with a charge of its payment at
-- the charge's provider.
--
-- Like `hold_of_merchant`, this function is part of the plan of the statement that calls it. BETWEEN
-- and ORDER BY make the planner use the primary key.
CREATE OR REPLACE FUNCTION destination_of_refund(
    p_merchant_id bigint, p_trx_id text, p_payment_trx_id text, p_provider text,
    p_charge_reference text, p_amount_minor bigint)
RETURNS TABLE (is_unchanged boolean)
LANGUAGE sql STABLE
AS $$
    SELECT (SELECT ARRAY[c.trx_id, c.provider] FROM charge c
             WHERE c.merchant_id = p_merchant_id
               AND c.reference BETWEEN p_charge_reference AND p_charge_reference
             ORDER BY c.reference LIMIT 1) = ARRAY[p_payment_trx_id, p_provider]
       AND (SELECT e.amount_minor FROM entry e
             WHERE e.merchant_id = p_merchant_id AND e.posting_id = p.id
               AND e.line = 2  -- the debit of in_flight
             LIMIT 1) = p_amount_minor
      FROM posting p
     WHERE p.merchant_id = p_merchant_id AND p.trx_id = p_trx_id AND p.kind = 'refund'
     LIMIT 1
$$;
