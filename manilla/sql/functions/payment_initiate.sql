-- Creates a batch of payments of any merchants, and returns an outcome for each payment:
--   created               the payment, its job and the stored response for its Idempotency-Key were created
--   rate_limited          the caller has exceeded its rate limit; nothing was written
--   replayed              the key was used before with the same body; returns the first response
--   key_conflict          the key was used before with another body
--   duplicate             the reference was used before; returns the first payment
--   again                 the outcome depends on an earlier item of the batch: retry
--   day_limit             the merchant's payments of the day would exceed its daily limit
--   insufficient_balance  the wallet cannot cover the commission
--
-- If two statements write the same reference or key at the same time, one of them fails on the
-- unique index without effect, and its retry finds the rows that the other statement wrote.
CREATE OR REPLACE FUNCTION payment_initiate(p_items jsonb, p_window interval)
RETURNS TABLE (
    item integer, outcome text, trx_id text, status text, answer text,
    used bigint, resets_in_seconds integer)
LANGUAGE plpgsql
SET search_path = public, pg_temp
-- Use one generic plan with index lookups, regardless of the number of rows.
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_sort = off  -- explained in `payout_initiate`, at the queries for the reference and the day
AS $$
#variable_conflict use_column
BEGIN
    IF jsonb_path_exists(p_items, '$[*].day_limit_minor ? (@ != null)') THEN
        -- One statement at a time adds to a day's sum. The next statement sees what the previous
        -- holders of these locks have committed. Wallets are locked in sorted order, before the
        -- rate limits.
        PERFORM FROM (
                SELECT DISTINCT g.merchant_id, g.environment, g.currency
                  FROM jsonb_to_recordset(p_items) AS g (
                       merchant_id bigint, environment text, currency text,
                       day_limit_minor bigint)
                 WHERE g.day_limit_minor IS NOT NULL
                 ORDER BY g.merchant_id, g.environment, g.currency) AS k
          CROSS JOIN LATERAL (
                SELECT FROM wallet w
                 WHERE w.merchant_id = k.merchant_id
                   AND w.environment = k.environment::environment AND w.currency = k.currency
                   FOR NO KEY UPDATE) AS locked;
    END IF;

    RETURN QUERY
    WITH given AS (
        SELECT * FROM jsonb_to_recordset(p_items) AS g (
               item integer, repeats boolean, merchant_id bigint, bucket text, cost bigint,
               behind bigint, rate_limit bigint,
               trx_id text, environment text, ref_trx text, currency text, amount_minor bigint,
               commission_minor bigint, commission_bearer text, tax_minor bigint,
               customer_tax_minor bigint, price text, covers_minor bigint,
               description text, customer_name text, customer_email text, ipn_url text,
               success_redirect text, cancel_redirect text, allow_payment_methods text[],
               is_legacy boolean, scenario text, link_id text, remarks text,
               customer_reference text, saves_way boolean, saved_way text, split text,
               created_at timestamptz, expires_at timestamptz, traceparent text,
               job_kind text, due_in_seconds float8,
               endpoint text, key text, body_hash text, answer text,
               day_limit_minor bigint, day_from text, ahead_minor bigint,
               event_id text, event text, event_body text)
    ), taken AS (
        SELECT t.* FROM (
               SELECT array_agg(b.bucket) AS buckets, array_agg(b.cost) AS costs
                 FROM (SELECT bucket, sum(coalesce(cost, 1))::bigint AS cost
                         FROM given GROUP BY bucket) AS b)
               AS b, rate_take(b.buckets, b.costs, p_window) AS t
    ), judged AS (
        SELECT g.*, g.same_key[2] AS first_answer, g.same_reference[1] AS first_trx_id,
               g.same_reference[2] AS first_status,
               CASE
               WHEN coalesce(g.cost, 1) > 0 AND g.used > g.rate_limit THEN 'rate_limited'
               WHEN g.same_key[1] = g.body_hash THEN 'replayed'
               WHEN g.same_key IS NOT NULL THEN 'key_conflict'
               WHEN g.same_reference IS NOT NULL THEN 'duplicate'
               WHEN g.day_minor + g.amount_minor > g.day_limit_minor THEN 'day_limit'
               WHEN g.covers_minor > 0 AND g.covers_minor > coalesce((
                    SELECT w.balance_minor FROM wallet w
                     WHERE w.merchant_id = g.merchant_id
                       AND w.environment = g.environment::environment
                       AND w.currency = g.currency), 0)
                    THEN 'insufficient_balance'
               WHEN g.repeats THEN 'again'
               -- Retry after the batch's earlier items, because one of them may be rejected.
               WHEN g.day_minor + coalesce(g.ahead_minor, 0) + g.amount_minor > g.day_limit_minor
                    THEN 'again'
               ELSE 'created'
               END AS outcome
          FROM (
               -- Look up each row by its full key. `payout_initiate` explains the reason, and also
               -- the queries for the reference and the day.
               SELECT g.*, t.used - coalesce(g.behind, 0) AS used, t.resets_in_seconds,
                      CASE WHEN g.key IS NOT NULL THEN (
                           SELECT ARRAY[i.body_hash, i.answer] FROM idempotency i
                            WHERE i.merchant_id = g.merchant_id
                              AND i.environment = g.environment::environment
                              AND i.endpoint = g.endpoint AND i.key = g.key)
                      END AS same_key,
                      (SELECT ARRAY[o.trx_id, o.status] FROM payment o
                        WHERE o.merchant_id = g.merchant_id
                          AND o.environment = g.environment::environment
                          AND o.ref_trx BETWEEN g.ref_trx AND g.ref_trx
                        ORDER BY o.ref_trx
                        LIMIT 1) AS same_reference,
                      CASE WHEN g.day_limit_minor IS NOT NULL THEN (
                           SELECT coalesce(sum(day.amount_minor), 0)
                             FROM (SELECT o.amount_minor FROM payment o
                                    WHERE o.merchant_id = g.merchant_id
                                      AND o.trx_id >= g.day_from
                                      AND o.environment = g.environment::environment
                                      AND o.currency = g.currency
                                      AND o.status IN ('pending', 'success')
                                    ORDER BY o.trx_id) AS day)
                      END AS day_minor
                 FROM given AS g
                 JOIN taken AS t ON t.bucket = g.bucket
                OFFSET 0) AS g
    ), created AS (
        INSERT INTO payment (
               merchant_id, trx_id, environment, ref_trx, currency, amount_minor,
               commission_minor, commission_bearer, description, customer_name, customer_email,
               ipn_url, success_redirect, cancel_redirect, allow_payment_methods, is_legacy,
               scenario, link_id, remarks, created_at, expires_at, traceparent,
               tax_minor, customer_tax_minor, price,
               customer_reference, saves_way, saved_way, split)
        SELECT merchant_id, trx_id, environment::environment, ref_trx, currency, amount_minor,
               commission_minor, commission_bearer, description, customer_name, customer_email,
               ipn_url, success_redirect, cancel_redirect, coalesce(allow_payment_methods, '{}'),
               coalesce(is_legacy, false), scenario, link_id, remarks,
               coalesce(created_at, now()),  -- the previous version of the code sends no time
               expires_at, traceparent,
               coalesce(tax_minor, 0), coalesce(customer_tax_minor, 0), price::jsonb,
               customer_reference, coalesce(saves_way, false), saved_way, split::jsonb
          FROM judged WHERE outcome = 'created' ORDER BY merchant_id, environment, ref_trx
    ), jobs AS (
        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT merchant_id, job_kind, trx_id,
               now() + make_interval(secs => coalesce(due_in_seconds, 0))
          FROM judged WHERE outcome = 'created'
    ), events AS (
        -- Only if one of the merchant's webhook endpoints is subscribed to the event.
        INSERT INTO notification (
               merchant_id, id, environment, trx_id, event, type, status, url, body, state)
        SELECT merchant_id, event_id, environment::environment, trx_id, event,
               'payment.pending', 'pending', '', convert_to(event_body, 'UTF8'), 'not_sent'
          FROM judged WHERE outcome = 'created' AND event_id IS NOT NULL
    ), answers AS (
        INSERT INTO idempotency (merchant_id, environment, endpoint, key, body_hash, answer)
        SELECT merchant_id, environment::environment, endpoint, key, body_hash, answer
          FROM judged WHERE outcome = 'created' AND key IS NOT NULL
    )
    SELECT item, outcome, first_trx_id, first_status, first_answer, used, resets_in_seconds
      FROM judged;
END $$;
