-- Adds the deliveries of new events to webhook endpoints, in the transaction that writes the events.
CREATE OR REPLACE FUNCTION notifications_fan_out() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    WITH added AS (
        INSERT INTO endpoint_delivery (merchant_id, endpoint_id, notification_id, trx_id)
        SELECT e.merchant_id, e.id, n.id, n.trx_id
          FROM written n
         CROSS JOIN LATERAL (
               SELECT merchant_id, id FROM webhook_endpoint
                WHERE merchant_id = n.merchant_id AND environment = n.environment
                  AND disabled_at IS NULL AND deleted_at IS NULL
                  AND events && ARRAY['*', split_part(n.type, '.', 1) || '.*', n.type]) AS e
         WHERE n.type IS NOT NULL  -- the type of a test is null
        RETURNING merchant_id, endpoint_id, trx_id)
    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT DISTINCT merchant_id, 'endpoint', trx_id || '/' || endpoint_id, now()
      FROM added ORDER BY 1, 3
        ON CONFLICT (merchant_id, kind, subject) DO UPDATE
       SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
           parked_at = NULL, failures = 0;
    RETURN NULL;
END $$;
