-- Prepares the request log for partitions by month, and creates the table of archived months.
--
-- The existing table becomes the first partition, without a copy of its rows. PostgreSQL attaches a
-- partition without reading it if a valid constraint guarantees its range. This migration adds the
-- constraint, the next one validates it while requests continue, and 0076 attaches the table.

-- The range ends after the next month, so that the migrations can be interrupted for weeks.
CREATE FUNCTION months_limit(of_table text, key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (%I < %L) NOT VALID',
        of_table, of_table || '_months', key,
        date_trunc('month', now(), 'UTC') + interval '2 months');
END $$;

SELECT months_limit('api_request', 'at');

-- The archive -------------------------------------------------------------------------------------

-- The months whose postings are in archive files. A row is inserted after the files were written and
-- verified, and before the first archived row is removed from its table.
CREATE TABLE archive_month (
    month           date PRIMARY KEY,      -- the first day of the month
    first_link      bigint NOT NULL,       -- the files contain the postings of these links
    last_link       bigint NOT NULL,
    last_id         bigint NOT NULL,       -- the last posting id of the last link
    manifest_sha256 bytea NOT NULL,
    transactions    bigint NOT NULL,       -- the number of transactions in the files
    written_at      timestamptz NOT NULL DEFAULT now(),
    removed_at      timestamptz,           -- null until all its transactions were removed
    checked_at      timestamptz NOT NULL,  -- when the files were last verified
    problem         text                   -- what the last verification found
);

-- The successful payments of a link that were archived.
ALTER TABLE payment_link
    ADD archived_count bigint NOT NULL DEFAULT 0,
    ADD archived_minor bigint NOT NULL DEFAULT 0;

-- Rejects the deletion of ledger rows that are not in the archive. Only the owner of the tables may
-- delete rows, and this trigger also stops mistakes by the owner.
CREATE FUNCTION refuse_to_delete_unarchived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last_id bigint := (SELECT max(m.last_id) FROM archive_month m);
    is_archived boolean := last_id IS NOT NULL;
BEGIN
    IF is_archived AND TG_TABLE_NAME = 'posting' THEN
        is_archived := NOT EXISTS (SELECT FROM gone WHERE gone.id > last_id);
    ELSIF is_archived AND TG_TABLE_NAME = 'entry' THEN
        is_archived := NOT EXISTS (SELECT FROM gone WHERE gone.posting_id > last_id);
    ELSIF is_archived THEN
        is_archived := NOT EXISTS (
            SELECT FROM gone
             WHERE gone.at >= (SELECT (max(month) + interval '1 month') AT TIME ZONE 'UTC'
                                FROM archive_month));
    END IF;
    IF NOT is_archived THEN
        RAISE EXCEPTION 'The ledger is append-only: % on % is refused.', TG_OP, TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;

DROP TRIGGER append_only ON posting;
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON posting
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();
CREATE TRIGGER archived_only AFTER DELETE ON posting REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_delete_unarchived();

DROP TRIGGER append_only ON entry;
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();
CREATE TRIGGER archived_only AFTER DELETE ON entry REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_delete_unarchived();

DROP TRIGGER append_only ON timeline;
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON timeline
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();
CREATE TRIGGER archived_only AFTER DELETE ON timeline REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_delete_unarchived();
