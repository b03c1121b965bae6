"""What became of cases, and when a payout was last sent and asked about."""

from manilla.sql import script

revision = "0009"
down_revision = "0008"

SCHEMA = """
-- A case that opens anew keeps what was decided before.
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
    ADD COLUMN last_sent_at timestamptz,  -- sent again; saved before it goes out
    ADD COLUMN asked_at     timestamptz;  -- reconciliation has asked about it when it was decided

-- By block ranges: it does not stand in the way of cheap updates, as another index would.
CREATE INDEX payout_age ON payout USING brin (created_at);
"""


def upgrade() -> None:
    script.run(SCHEMA)
