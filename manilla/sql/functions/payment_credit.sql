-- Credits payments of any merchants whose charge was paid as requested: writes the statuses of
-- payment and charge, ledger postings, timeline and notification. Returns the credited items. Skips
-- an item, and changes nothing for it, in these cases:
--   - the payment is not pending, was partly paid, or was created with a payment link
--   - the charge has a final status, or another amount was requested
--   - a signed webhook contradicts the payment, its amount or its currency
--   - the merchant emails receipts to its customers, or was renamed
--   - the wallet does not exist, or would exceed its maximum balance
--
-- Payments are locked in sorted order, and then wallets, so statements cannot deadlock.
CREATE OR REPLACE FUNCTION payment_credit(p_items jsonb) RETURNS TABLE (item integer)
LANGUAGE plpgsql
SET search_path = public, pg_temp
SET plan_cache_mode = force_generic_plan  -- see `ledger_post_locked`
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    balance_max constant bigint := 9000000000000000000;
    undisputed integer[];
    credited integer[];
    unposted integer;
    number integer;
BEGIN
    PERFORM FROM (
            SELECT g.merchant_id, g.trx_id
              FROM jsonb_to_recordset(p_items) AS g (merchant_id bigint, trx_id text)
             ORDER BY g.merchant_id, g.trx_id) AS k
      CROSS JOIN LATERAL (
            SELECT FROM payment p
             WHERE p.merchant_id = k.merchant_id AND p.trx_id = k.trx_id
               FOR UPDATE) AS locked;

    -- This new statement sees what the previous holders of these locks have committed.
    SELECT array_agg(g.item) INTO undisputed
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, charge text, provider text,
           paid numeric, paid_minor bigint, currency text, merchant_name text)
     CROSS JOIN LATERAL (
           SELECT payment.environment, payment.status, payment.currency, payment.amount_minor,
                  payment.commission_minor, payment.commission_bearer, payment.customer_email,
                  payment.received_minor, payment.link_id FROM payment
            WHERE payment.merchant_id = g.merchant_id AND payment.trx_id BETWEEN g.trx_id AND g.trx_id
            ORDER BY payment.trx_id  -- only the primary key has this order
            LIMIT 1) AS p
     CROSS JOIN LATERAL (
           SELECT charge.trx_id, charge.provider, charge.status, charge.amount_minor,
                  charge.currency FROM charge
            WHERE charge.merchant_id = g.merchant_id AND charge.reference BETWEEN g.charge AND g.charge
            ORDER BY charge.reference  -- only the primary key has this order
            LIMIT 1) AS c
     CROSS JOIN LATERAL (
           SELECT merchant.name, merchant.sends_receipts FROM merchant
            WHERE merchant.id = g.merchant_id
            LIMIT 1) AS m
     WHERE p.environment = 'production' AND p.status = 'pending' AND p.currency = g.currency
       AND p.received_minor IS NULL AND p.link_id IS NULL
       AND c.trx_id = g.trx_id AND c.provider = g.provider AND c.status IN ('opening', 'open')
       AND c.amount_minor = g.paid_minor AND c.currency = g.currency
       AND m.name = g.merchant_name AND NOT (m.sends_receipts AND p.customer_email IS NOT NULL)
       AND g.paid_minor = p.amount_minor + CASE p.commission_bearer
                                           WHEN 'customer' THEN p.commission_minor ELSE 0 END
       AND NOT EXISTS (
           SELECT FROM charge other
            WHERE other.merchant_id = ANY (ARRAY[g.merchant_id]) AND other.trx_id = g.trx_id
              AND other.credit_minor <> 0)
       AND NOT EXISTS (
           SELECT FROM webhook w
            WHERE w.merchant_id + 0 = g.merchant_id  -- with `|| ''`, only the index by reference fits
              AND w.reference = ANY (ARRAY[g.charge])
              AND w.provider || '' = g.provider AND w.kind = 'charge'
              AND (coalesce(w.claimed_status, 'paid') <> 'paid'
                   OR coalesce(w.claimed_amount, g.paid) <> g.paid
                   OR coalesce(w.claimed_currency, g.currency) <> g.currency));
    IF undisputed IS NULL THEN
        RETURN;
    END IF;

    PERFORM FROM (
            SELECT DISTINCT g.merchant_id, g.currency
              FROM jsonb_to_recordset(p_items) AS g (
                   item integer, merchant_id bigint, currency text)
             WHERE g.item = ANY (undisputed)
             ORDER BY g.merchant_id, g.currency) AS k
      CROSS JOIN LATERAL (
            SELECT FROM wallet w
             WHERE w.merchant_id = k.merchant_id AND w.environment = 'production'
               AND w.currency = k.currency
               FOR NO KEY UPDATE) AS locked;

    SELECT array_agg(g.item) INTO credited
      FROM (SELECT i.item, i.merchant_id, i.currency,
                   sum(i.amount_minor) OVER (PARTITION BY i.merchant_id, i.currency) AS added
              FROM jsonb_to_recordset(p_items) AS i (
                   item integer, merchant_id bigint, currency text, amount_minor bigint)
             WHERE i.item = ANY (undisputed)) AS g
     CROSS JOIN LATERAL (
           SELECT wallet.balance_minor FROM wallet
            WHERE wallet.merchant_id = g.merchant_id AND wallet.environment = 'production'
              AND wallet.currency = g.currency
            LIMIT 1) AS w
     WHERE w.balance_minor + g.added <= balance_max;
    IF credited IS NULL THEN
        RETURN;
    END IF;

    WITH new_posting AS (
        SELECT row_number() OVER (ORDER BY g.item, p.place)::integer AS number,
               g.merchant_id, g.currency, p.*
          FROM jsonb_to_recordset(p_items) AS g (
               item integer, merchant_id bigint, currency text, postings jsonb)
         CROSS JOIN LATERAL jsonb_to_recordset(g.postings) AS p (
               place integer, trx_id text, kind text, wallet_minor bigint, lines jsonb,
               -- The previous version sends these columns instead of `lines`.
               first_account text, first_minor bigint, second_account text, second_minor bigint)
         WHERE g.item = ANY (credited))
    SELECT count(*) INTO unposted
      FROM (SELECT array_agg(number ORDER BY number) AS numbers,
                   array_agg(merchant_id ORDER BY number) AS merchant_ids,
                   array_agg(trx_id ORDER BY number) AS trx_ids,
                   array_agg(kind ORDER BY number) AS kinds,
                   array_agg('production'::text) AS environments,
                   array_agg(currency ORDER BY number) AS currencies,
                   array_agg(NULL::text) AS reasons,
                   array_agg(wallet_minor ORDER BY number) AS wallet_minors
              FROM new_posting) AS p
     CROSS JOIN (
           SELECT array_agg(n.number ORDER BY n.number, line.place) AS items,
                  array_agg(line.account ORDER BY n.number, line.place) AS accounts,
                  array_agg(line.minor ORDER BY n.number, line.place) AS minors
             FROM new_posting AS n
            CROSS JOIN LATERAL ROWS FROM (
                  jsonb_to_recordset(coalesce(n.lines, jsonb_build_array(
                      jsonb_build_object('account', n.first_account, 'minor', n.first_minor),
                      jsonb_build_object('account', n.second_account,
                                         'minor', coalesce(n.second_minor, 0)))))
                  AS (account text, minor bigint)) WITH ORDINALITY AS line (account, minor, place)
           ) AS l
     CROSS JOIN LATERAL ledger_post_locked(
           p.numbers, p.merchant_ids, p.trx_ids, p.kinds, p.environments, p.currencies, p.reasons,
           p.wallet_minors, l.items, l.accounts, l.minors) AS posted
     WHERE posted.outcome <> 'posted';
    IF unposted > 0 THEN
        RAISE EXCEPTION 'A posting of a locked payment was refused.';
    END IF;

    UPDATE payment p
       SET status = 'success', error_code = NULL, commission_trx_id = g.commission_trx_id,
           credited_charge = g.charge, updated_at = now()
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, charge text, commission_trx_id text)
     WHERE g.item = ANY (credited)
       AND p.merchant_id = ANY (ARRAY[g.merchant_id]) AND p.trx_id = g.trx_id;
    GET DIAGNOSTICS number = ROW_COUNT;
    IF number <> cardinality(credited) THEN
        RAISE EXCEPTION 'A payment is twice in the items.';
    END IF;

    UPDATE charge c
       SET status = 'paid', paid_minor = g.paid_minor, reason = NULL, error_code = NULL,
           provider_reference = coalesce(g.provider_reference, c.provider_reference),
           updated_at = now()
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, charge text, paid_minor bigint,
           provider_reference text)
     WHERE g.item = ANY (credited)
       AND c.merchant_id = ANY (ARRAY[g.merchant_id]) AND c.reference = g.charge;

    -- The kind is not a constant, so the planner uses the key instead of a kind's partial index.
    DELETE FROM job
     USING jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, expire_kind text)
     WHERE g.item = ANY (credited)
       AND job.merchant_id = ANY (ARRAY[g.merchant_id]) AND job.kind = g.expire_kind
       AND job.subject = g.trx_id;

    PERFORM outcomes_write(p_items, credited);
    RETURN QUERY SELECT unnest(credited);
END $$;
