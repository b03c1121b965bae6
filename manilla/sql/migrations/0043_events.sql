-- Events: every status change, in an order that loses nothing, and their delivery to endpoints.

-- Transaction numbers (`xid`) count from one in each database cluster. An epoch is the time on one
-- cluster; the next one begins when a backup is restored into another.
CREATE TABLE event_epoch (
    number            integer PRIMARY KEY,
    system_identifier text NOT NULL,
    began_at          timestamptz NOT NULL DEFAULT now()
);
INSERT INTO event_epoch (number, system_identifier)
SELECT 1, system_identifier::text FROM pg_control_system();

-- This function and the trigger run with the owner's rights: until the migration has ended, the
-- role of the running version has none on the new tables.
CREATE FUNCTION current_event_epoch() RETURNS integer LANGUAGE sql STABLE SECURITY DEFINER
RETURN (SELECT max(number) FROM event_epoch);

-- Ids are in the order of creation, but transactions commit in another order. Readers follow
-- (epoch, xid, id), and only up to the oldest transaction that is still open.
-- Existing rows get the number of this transaction, without a rewrite of the table.
ALTER TABLE notification
    ADD epoch integer NOT NULL DEFAULT 1,
    ADD xid   xid8 NOT NULL DEFAULT pg_current_xact_id(),
    DROP CONSTRAINT notification_state_check,
    ADD CONSTRAINT notification_state_check
        CHECK (state IN ('waiting', 'delivered', 'failed', 'not_sent')) NOT VALID;
ALTER TABLE notification ALTER epoch SET DEFAULT current_event_epoch();

-- Returns the type of the event that a notification reports; null if it is a test.
CREATE FUNCTION event_type(event text, status text, body bytea) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN split_part(event, '.', 1) = 'payment' THEN
         CASE status WHEN 'completed' THEN 'payment.success'
                     WHEN 'pending' THEN 'payment.pending'
                     ELSE 'payment.failed' END
    WHEN event = 'payout' AND status = 'failed'
         AND position('"message":"Payout Reversed"'::bytea IN body) > 0 THEN 'payout.reversed'
    WHEN event IN ('payout', 'refund') THEN event || '.' || status
    END;

CREATE TABLE webhook_endpoint (
    merchant_id     bigint NOT NULL REFERENCES merchant,
    id              text NOT NULL,
    environment     environment NOT NULL,
    url             text NOT NULL,
    events          text[] NOT NULL,  -- types, `payment.*` or `*`
    description     text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    failing_since   timestamptz,  -- the first failed attempt after the last success
    disabled_at     timestamptz,
    disabled_reason text,
    deleted_at      timestamptz,  -- the row stays as long as its deliveries
    PRIMARY KEY (merchant_id, id)
);

-- The secrets with which an endpoint's messages are signed: all that have not expired.
CREATE TABLE endpoint_secret (
    merchant_id bigint NOT NULL,
    endpoint_id text NOT NULL,
    number      integer NOT NULL,
    sealed      bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz,
    PRIMARY KEY (merchant_id, endpoint_id, number),
    FOREIGN KEY (merchant_id, endpoint_id) REFERENCES webhook_endpoint
);

-- One event for one endpoint. Its attempts are in `delivery_attempt`, under the ids of both.
CREATE TABLE endpoint_delivery (
    merchant_id     bigint NOT NULL,
    endpoint_id     text NOT NULL,
    notification_id text NOT NULL,
    trx_id          text NOT NULL,
    state           text NOT NULL DEFAULT 'waiting'
                    CHECK (state IN ('waiting', 'delivered', 'failed')),
    attempts        integer NOT NULL DEFAULT 0,  -- since it was created or last resent
    created_at      timestamptz NOT NULL DEFAULT now(),
    decided_at      timestamptz,
    PRIMARY KEY (merchant_id, endpoint_id, notification_id)
) WITH (fillfactor = 80);
CREATE INDEX endpoint_delivery_trx ON endpoint_delivery (merchant_id, endpoint_id, trx_id);
CREATE INDEX endpoint_delivery_age ON endpoint_delivery (created_at);

-- Adds an event's deliveries in the transaction of the status change, whichever code writes it.
CREATE FUNCTION notification_fan_out() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    type_of_event text := event_type(NEW.event, NEW.status, NEW.body);
BEGIN
    IF type_of_event IS NULL THEN
        RETURN NULL;
    END IF;
    WITH added AS (
        INSERT INTO endpoint_delivery (merchant_id, endpoint_id, notification_id, trx_id)
        SELECT merchant_id, id, NEW.id, NEW.trx_id FROM webhook_endpoint
         WHERE merchant_id = NEW.merchant_id AND environment = NEW.environment
           AND disabled_at IS NULL AND deleted_at IS NULL
           AND events && ARRAY['*', split_part(type_of_event, '.', 1) || '.*', type_of_event]
        RETURNING merchant_id, endpoint_id)
    INSERT INTO job (merchant_id, kind, subject, due_at)
    SELECT merchant_id, 'endpoint', NEW.trx_id || '/' || endpoint_id, now()
      FROM added ORDER BY endpoint_id
        ON CONFLICT (merchant_id, kind, subject) DO UPDATE
       SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
           parked_at = NULL, failures = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER notification_fan_out AFTER INSERT ON notification
    FOR EACH ROW EXECUTE FUNCTION notification_fan_out();

CREATE INDEX CONCURRENTLY notification_order ON notification
    (merchant_id, environment, epoch, xid, id);

-- For fair scheduling, merchant by merchant.
CREATE INDEX CONCURRENTLY job_turns_endpoint ON job (merchant_id, due_at)
    WHERE kind = 'endpoint' AND parked_at IS NULL;
