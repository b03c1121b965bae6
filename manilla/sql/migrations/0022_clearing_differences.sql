-- Since when a provider's balance has differed from our ledger, and cases whose cause is gone.

CREATE TABLE clearing_difference (
    provider text NOT NULL,
    currency currency NOT NULL,
    minor    bigint NOT NULL,  -- as last seen; 0: no difference
    since    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, currency)
);

ALTER TABLE operator_case ADD vanished_at timestamptz;  -- when its cause was gone
ALTER TABLE case_event DROP CONSTRAINT case_event_event_check;
ALTER TABLE case_event ADD CONSTRAINT case_event_event_check
    CHECK (event IN ('opened', 'reopened', 'resolved', 'vanished', 'returned')) NOT VALID;
