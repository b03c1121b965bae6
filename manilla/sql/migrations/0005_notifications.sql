-- Notification deliveries, with a record of every attempt.

ALTER TABLE notification
    ADD COLUMN attempts integer NOT NULL DEFAULT 0,  -- since it was created or last resent
    ADD COLUMN decided_at timestamptz;

-- The request and response of each attempt. The request body is in `notification`.
CREATE TABLE delivery_attempt (
    merchant_id     bigint NOT NULL,
    notification_id text NOT NULL,
    number          integer NOT NULL,
    at              timestamptz NOT NULL,
    headers         jsonb NOT NULL,
    status          integer,  -- null: no response
    answer          bytea,    -- the start of the response
    milliseconds    integer NOT NULL,
    error           text,
    PRIMARY KEY (merchant_id, notification_id, number)
);

-- The notifications of a transaction are sent one after the other, so they share one job.
DELETE FROM job WHERE kind = 'notify';
INSERT INTO job (merchant_id, kind, subject, due_at)
SELECT DISTINCT merchant_id, 'notify', trx_id, now() FROM notification WHERE state = 'waiting';

CREATE INDEX notification_age ON notification (created_at);
CREATE INDEX notification_of_merchant ON notification (merchant_id, created_at);
CREATE INDEX notification_waiting ON notification (created_at) WHERE state = 'waiting';

-- For fair scheduling, merchant by merchant, however many jobs a merchant has waiting.
CREATE INDEX job_turns ON job (merchant_id, due_at) WHERE kind = 'notify' AND parked_at IS NULL;
