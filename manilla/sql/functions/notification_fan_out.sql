-- Adds an event's deliveries in the transaction of the status change, whichever code writes it.
CREATE OR REPLACE FUNCTION notification_fan_out() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.type IS NULL THEN  -- a test
        RETURN NULL;
    END IF;
    WITH added AS (
        INSERT INTO endpoint_delivery (merchant_id, endpoint_id, notification_id, trx_id)
        SELECT merchant_id, id, NEW.id, NEW.trx_id FROM webhook_endpoint
         WHERE merchant_id = NEW.merchant_id AND environment = NEW.environment
           AND disabled_at IS NULL AND deleted_at IS NULL
           AND events && ARRAY['*', split_part(NEW.type, '.', 1) || '.*', NEW.type]
        RETURNING merchant_id, endpoint_id)
    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT merchant_id, 'endpoint', NEW.trx_id || '/' || endpoint_id, now()
      FROM added ORDER BY endpoint_id
        ON CONFLICT (merchant_id, kind, subject) DO UPDATE
       SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
           parked_at = NULL, failures = 0;
    RETURN NULL;
END $$;
