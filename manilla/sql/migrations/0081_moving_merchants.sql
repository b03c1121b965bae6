-- Moving a merchant to another cell: the fence, the steps of each move, and what travels with it.

-- The merchants that this cell must not act for, or not for much longer. The triggers of
-- `merchant_fence` read this table, so no process of this cell can change a fenced merchant's rows.
--   copying   lives here; its rows are being copied, and nothing is fenced yet
--   closing   lives here; the API and the pages reject its requests, and workers finish their jobs
--   leaving   no process of this cell can change its rows; the other cell does not act yet
--   left      lives in another cell; the rows here are a copy for auditors
--   arriving  its rows are being copied to this cell, which must not act yet
--   partial   lives in another cell; a move to this cell was taken back, so the rows are incomplete
CREATE TABLE merchant_fence (
    merchant_id bigint PRIMARY KEY,
    state       text NOT NULL
                CHECK (state IN ('copying', 'closing', 'leaving', 'left', 'arriving', 'partial')),
    cell        text NOT NULL REFERENCES cell,  -- the other cell
    -- Postings above this id arrive, or arrived until the move was taken back.
    after_id    bigint NOT NULL DEFAULT 0,
    -- Case events above this id arrive.
    after_event bigint NOT NULL DEFAULT 0,
    since       timestamptz NOT NULL DEFAULT now()
);

-- The moves from this cell and to this cell. Both cells have a row with the same id.
CREATE TABLE merchant_move (
    id           text PRIMARY KEY,
    merchant_id  bigint NOT NULL,
    from_cell    text NOT NULL REFERENCES cell,
    to_cell      text NOT NULL REFERENCES cell,
    step         text NOT NULL,       -- the last step that has ended; only in the first cell
    facts        jsonb NOT NULL DEFAULT '{}',
    began_at     timestamptz NOT NULL DEFAULT now(),
    closed_at    timestamptz,         -- when the API started to reject the merchant's requests
    activated_at timestamptz,         -- the point of no return: the second cell acts from here on
    ended_at     timestamptz,
    was_aborted  boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX merchant_move_open ON merchant_move (merchant_id) WHERE ended_at IS NULL;

-- Jobs of a merchant that is leaving. A worker cannot claim them here, and its lease has ended.
CREATE TABLE moved_job (
    merchant_id bigint NOT NULL,
    kind        text NOT NULL,
    subject     text NOT NULL,
    due_at      timestamptz NOT NULL,
    attempts    integer NOT NULL,
    failures    integer NOT NULL,
    parked_at   timestamptz,
    last_error  text,
    PRIMARY KEY (merchant_id, kind, subject)
);

-- The last row that is replicated in a move. When it has arrived, all earlier changes have arrived.
CREATE TABLE move_marker (
    merchant_id bigint NOT NULL,
    move        text NOT NULL,
    PRIMARY KEY (merchant_id, move)
);

-- A link with a merchant covers the postings that arrived with it. Their ids are from another cell.
ALTER TABLE posting_chain ADD merchant_id bigint;

-- Rejects or skips changes of a fenced merchant's rows. The function runs only for merchants that
-- the triggers name, so other merchants cost nothing. The lock on the fence's row makes a change of
-- the state wait for all transactions that passed the fence before.
-- A batch of several merchants must not fail because of one: such changes are skipped.
CREATE FUNCTION merchant_fence() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    of_merchant bigint;
    fence text;
BEGIN
    IF TG_TABLE_NAME = 'merchant' THEN
        of_merchant := NEW.id;
    ELSIF TG_OP = 'DELETE' THEN
        of_merchant := OLD.merchant_id;
    ELSE
        of_merchant := NEW.merchant_id;
    END IF;
    SELECT f.state INTO fence FROM merchant_fence f WHERE f.merchant_id = of_merchant FOR SHARE;
    IF fence IS NULL OR fence IN ('copying', 'closing')
       OR current_setting('manilla.moves', true) = of_merchant::text THEN
        RETURN CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
    ELSIF TG_OP = 'DELETE' THEN
        -- Old rows expire in the copy for auditors as they do elsewhere.
        RETURN CASE WHEN fence IN ('left', 'partial') THEN OLD END;
    ELSIF TG_TABLE_NAME = 'job' THEN
        IF NEW.kind IN ('mail', 'person.reset') THEN
            RETURN NEW;  -- emails stay in their cell
        END IF;
        RETURN NULL;
    ELSIF TG_OP = 'UPDATE' AND TG_TABLE_NAME IN (
          'payout', 'payment', 'charge', 'refund', 'notification', 'endpoint_delivery', 'webhook')
    THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'Merchant % lives in another cell, or is being moved: % on % is rejected.',
          of_merchant, TG_OP, TG_TABLE_NAME USING ERRCODE = 'object_not_in_prerequisite_state';
END $$;

-- Returns whether this cell only has a copy of the merchant's rows, because the merchant lives in
-- another cell, or because its move to this cell has not ended.
CREATE FUNCTION lives_elsewhere(p_merchant_id bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM merchant_fence f
                    WHERE f.merchant_id = p_merchant_id
                      AND f.state IN ('left', 'arriving', 'partial'))
$$;

-- Creates the triggers of `merchant_fence` on a table, for the merchants that have a fence now.
CREATE FUNCTION merchant_fence_on(of_table text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    fenced text := (SELECT quote_literal(array_agg(f.merchant_id ORDER BY f.merchant_id)::text)
                      FROM merchant_fence f);
    key text := CASE of_table WHEN 'merchant' THEN 'id' ELSE 'merchant_id' END;
BEGIN
    IF fenced IS NULL THEN
        EXECUTE format('DROP TRIGGER IF EXISTS merchant_fence ON %I', of_table);
        EXECUTE format('DROP TRIGGER IF EXISTS merchant_fence_delete ON %I', of_table);
        RETURN;
    END IF;
    EXECUTE format('CREATE OR REPLACE TRIGGER merchant_fence BEFORE INSERT OR UPDATE ON %I'
        ' FOR EACH ROW WHEN (NEW.%I = ANY (%s::bigint[])) EXECUTE FUNCTION merchant_fence()',
        of_table, key, fenced);
    IF of_table <> 'merchant' THEN
        EXECUTE format('CREATE OR REPLACE TRIGGER merchant_fence_delete BEFORE DELETE ON %I'
            ' FOR EACH ROW WHEN (OLD.%I = ANY (%s::bigint[])) EXECUTE FUNCTION merchant_fence()',
            of_table, key, fenced);
    END IF;
END $$;

-- Returns whether rows of a merchant belong to a move to this cell, so that the move can remove them
-- when it is taken back or starts again.
CREATE FUNCTION merchant_arrives(p_merchant_id bigint, p_id bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM merchant_fence f
                    WHERE f.merchant_id = p_merchant_id AND f.state = 'arriving'
                      AND current_setting('manilla.moves', true) = p_merchant_id::text
                      AND (p_id IS NULL OR p_id > f.after_id))
$$;

CREATE OR REPLACE FUNCTION refuse_to_delete_unarchived() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    last_id bigint := (SELECT max(m.last_id) FROM archive_month m);
    is_archived boolean := last_id IS NOT NULL;
BEGIN
    IF current_setting('manilla.moves', true) <> '' THEN
        IF TG_TABLE_NAME = 'posting' THEN
            is_archived := NOT EXISTS (
                SELECT FROM gone WHERE NOT merchant_arrives(gone.merchant_id, gone.id));
        ELSIF TG_TABLE_NAME = 'entry' THEN
            is_archived := NOT EXISTS (
                SELECT FROM gone WHERE NOT merchant_arrives(gone.merchant_id, gone.posting_id));
        ELSE
            is_archived := NOT EXISTS (
                SELECT FROM gone WHERE NOT merchant_arrives(gone.merchant_id, NULL));
        END IF;
    ELSIF is_archived AND TG_TABLE_NAME = 'posting' THEN
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

-- Case events of a merchant that arrives can be removed if its move is taken back.
CREATE FUNCTION refuse_to_delete_settled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM gone WHERE NOT EXISTS (
               SELECT FROM merchant_fence f
                WHERE f.merchant_id = gone.merchant_id AND f.state = 'arriving'
                  AND current_setting('manilla.moves', true) = gone.merchant_id::text
                  AND gone.id > f.after_event)) THEN
        RAISE EXCEPTION 'The ledger is append-only: % on % is refused.', TG_OP, TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
DROP TRIGGER append_only ON case_event;
CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON case_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();
CREATE TRIGGER arriving_only AFTER DELETE ON case_event REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_delete_settled();

CREATE INDEX CONCURRENTLY posting_chain_arrivals ON posting_chain (merchant_id)
    WHERE merchant_id IS NOT NULL;
