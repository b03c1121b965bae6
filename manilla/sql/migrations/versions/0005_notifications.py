"""Delivering notifications: every attempt is kept."""

from manilla.sql import script

revision = "0005"
down_revision = "0004"

SCHEMA = """
ALTER TABLE notification
    ADD COLUMN attempts integer NOT NULL DEFAULT 0,  -- since it was last put on its way
    ADD COLUMN decided_at timestamptz;

-- What was sent and what came back. The bytes are the notification's own.
CREATE TABLE delivery_attempt (
    merchant_id     bigint NOT NULL,
    notification_id text NOT NULL,
    number          integer NOT NULL,
    at              timestamptz NOT NULL,
    headers         jsonb NOT NULL,
    status          integer,  -- null: no answer came
    answer          bytea,    -- its first part
    milliseconds    integer NOT NULL,
    error           text,
    PRIMARY KEY (merchant_id, notification_id, number)
);

-- Notifications of a transaction go out one after the other, so there is one job for all of them.
DELETE FROM job WHERE kind = 'notify';
INSERT INTO job (merchant_id, kind, subject, due_at)
SELECT DISTINCT merchant_id, 'notify', trx_id, now() FROM notification WHERE state = 'waiting';

CREATE INDEX notification_age ON notification (created_at);
CREATE INDEX notification_of_merchant ON notification (merchant_id, created_at);
CREATE INDEX notification_waiting ON notification (created_at) WHERE state = 'waiting';

-- Claimed in turns, merchant by merchant, however many one of them has waiting.
CREATE INDEX job_turns ON job (merchant_id, due_at) WHERE kind = 'notify' AND parked_at IS NULL;
"""


def upgrade() -> None:
    script.run(SCHEMA)
