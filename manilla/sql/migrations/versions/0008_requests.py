"""What merchants asked of the API, and how it was answered; and what lists of it all need."""

from manilla.sql import script

revision = "0008"
down_revision = "0007"

SCHEMA = """
-- Written in batches, after the answer. It has no key or signature in it, and nothing of the body
-- but the merchant's own reference.
CREATE TABLE api_request (
    merchant_id  bigint NOT NULL,
    at           timestamptz NOT NULL,
    request_id   text NOT NULL,
    environment  environment NOT NULL,
    method       text NOT NULL,
    path         text NOT NULL,
    status       smallint NOT NULL,
    error_code   text,
    error        text,
    errors       jsonb,  -- the fields or headers at fault, and why
    milliseconds real NOT NULL,
    address      text NOT NULL,
    user_agent   text,
    ref_trx      text,
    trx_id       text,
    PRIMARY KEY (merchant_id, at, request_id)
);
CREATE INDEX api_request_age ON api_request USING brin (at) WITH (autosummarize = on);

ALTER TABLE credential ADD COLUMN last_used_at timestamptz;

-- Postings are found by their number and by their time only when people look at lists. They are
-- written in that order, so the blocks' bounds are enough, and a new posting costs no more.
CREATE INDEX posting_place ON posting USING brin (id, posted_at)
  WITH (pages_per_range = 32, autosummarize = on);

-- What waits for a person. Nothing is in these when it is new.
CREATE INDEX job_parked ON job (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX notification_failed ON notification (merchant_id, created_at)
 WHERE state = 'failed';
"""


def upgrade() -> None:
    script.run(SCHEMA)
