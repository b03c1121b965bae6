-- The log of API requests, and indexes for lists.

-- Written in batches, after the response. It contains no key or signature, and nothing from the
-- body except the merchant's reference.
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
    errors       jsonb,  -- messages by invalid field or header
    milliseconds real NOT NULL,
    address      text NOT NULL,
    user_agent   text,
    ref_trx      text,
    trx_id       text,
    PRIMARY KEY (merchant_id, at, request_id)
);
CREATE INDEX api_request_age ON api_request USING brin (at) WITH (autosummarize = on);

ALTER TABLE credential ADD COLUMN last_used_at timestamptz;

-- Only lists for people find postings by id and time. Postings are written in that order, so a BRIN
-- index is enough and makes new postings no more expensive.
CREATE INDEX posting_place ON posting USING brin (id, posted_at)
  WITH (pages_per_range = 32, autosummarize = on);

-- Rows that wait for a person. New rows are in neither index.
CREATE INDEX job_parked ON job (parked_at) WHERE parked_at IS NOT NULL;
CREATE INDEX notification_failed ON notification (merchant_id, created_at)
 WHERE state = 'failed';
