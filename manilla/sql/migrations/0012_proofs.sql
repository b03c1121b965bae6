-- When the ledger was last checked, and the result.

-- One row. A request for a check sets `asked_at`; the one worker that runs it sets `began_at`.
CREATE TABLE proof (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    asked_at timestamptz,
    began_at timestamptz,
    ended_at timestamptz,
    findings jsonb NOT NULL DEFAULT '[]',  -- of the last completed check
    problem  text                          -- why a check did not complete
);
INSERT INTO proof DEFAULT VALUES;
