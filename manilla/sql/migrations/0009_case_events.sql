-- Events of cases, and when a payout was last sent and queried.

-- A case that is reopened keeps its earlier decisions.
CREATE TABLE case_event (
    merchant_id bigint NOT NULL,
    case_id     bigint NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    at          timestamptz NOT NULL DEFAULT now(),
    event       text NOT NULL CHECK (event IN ('opened', 'reopened', 'resolved')),
    detail      text NOT NULL,
    PRIMARY KEY (merchant_id, case_id, id)
);

INSERT INTO case_event (merchant_id, case_id, at, event, detail)
SELECT merchant_id, id, opened_at, 'opened', detail FROM operator_case ORDER BY merchant_id, id;
INSERT INTO case_event (merchant_id, case_id, at, event, detail)
SELECT merchant_id, id, coalesce(resolved_at, now()), 'resolved', coalesce(resolution, '')
  FROM operator_case WHERE status = 'resolved' ORDER BY merchant_id, id;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON case_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

ALTER TABLE payout
    ADD COLUMN last_sent_at timestamptz,  -- last retry; saved before it is sent
    ADD COLUMN asked_at     timestamptz;  -- last query by reconciliation, after the final status

-- A BRIN index does not prevent HOT updates, as a B-tree index would.
CREATE INDEX payout_age ON payout USING brin (created_at);
