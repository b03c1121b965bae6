-- A hash chain over all postings, so that an auditor finds postings that were changed, removed or
-- inserted afterwards. The worker adds the links after the postings have been committed.
CREATE TABLE posting_chain (
    number        bigint PRIMARY KEY,
    first_id      bigint NOT NULL,  -- the link covers the postings with ids from first_id to last_id
    last_id       bigint NOT NULL,
    postings      bigint NOT NULL,
    entries       bigint NOT NULL,
    content       bytea NOT NULL,   -- the SHA-256 of the postings with their entries
    linked_at     timestamptz NOT NULL,
    previous_hash bytea NOT NULL,
    hash          bytea NOT NULL,
    CHECK (last_id >= first_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON posting_chain
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- The last link. Adding a link locks this row, so that only one worker extends the chain.
CREATE TABLE posting_chain_head (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    number    bigint NOT NULL,
    last_id   bigint NOT NULL,
    hash      bytea NOT NULL,
    mailed_on date  -- the day on which administrators last got the head by email
);
INSERT INTO posting_chain_head (number, last_id, hash) VALUES (0, 0, decode(repeat('00', 32), 'hex'));
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON posting_chain_head
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- A pack with a seal finds the transactions whose status has changed since the seal.
CREATE INDEX CONCURRENTLY timeline_time ON timeline USING brin (at) WITH (autosummarize = on);
