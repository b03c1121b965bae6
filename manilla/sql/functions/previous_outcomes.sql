-- Only the previous version calls these functions, also from functions that run while they are
-- replaced. It processes a result that they skip in a transaction of its own.
CREATE OR REPLACE FUNCTION payout_deliver(p_items jsonb) RETURNS TABLE (item integer)
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
END $$;

CREATE OR REPLACE FUNCTION payment_credit(p_items jsonb) RETURNS TABLE (item integer)
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
END $$;

CREATE OR REPLACE FUNCTION outcomes_write(
    p_items   jsonb,
    p_numbers integer[]  -- the numbers of the items whose outcome is written
) RETURNS void
LANGUAGE plpgsql
SET search_path = public, pg_temp
AS $$
BEGIN
    INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status, detail, facts)
    SELECT g.merchant_id, g.trx_id,
           (SELECT coalesce(max(t.number), 0) + 1 FROM timeline t
             WHERE t.merchant_id = g.merchant_id AND t.trx_id = g.trx_id),
           g.step, 'pending', g.status, g.detail, '{}'
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, step text, status text, detail text)
     WHERE g.item = ANY (p_numbers);

    INSERT INTO notification (merchant_id, id, environment, trx_id, event, type, status, url, body,
                              state, epoch)
    SELECT g.merchant_id, g.notice_id, g.environment::environment, g.trx_id, g.event, g.event_type,
           g.notice_status, g.ipn_url, convert_to(g.notice, 'UTF8'),
           CASE WHEN g.ipn_url = '' THEN 'not_sent' ELSE 'waiting' END,
           (SELECT current_event_epoch())  -- once per statement; the default is once per row
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, environment text, notice_id text,
           event text, event_type text, notice_status text, ipn_url text, notice text)
     WHERE g.item = ANY (p_numbers);

    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT g.merchant_id, 'notify', g.trx_id, now()
      FROM jsonb_to_recordset(p_items) AS g (
           item integer, merchant_id bigint, trx_id text, ipn_url text)
     WHERE g.item = ANY (p_numbers) AND g.ipn_url <> ''
     ORDER BY g.merchant_id, g.trx_id
        ON CONFLICT (merchant_id, kind, subject) DO UPDATE
       SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
           parked_at = NULL, failures = 0;
END $$;
