-- How payouts of each provider to each bank ended, by minute.

CREATE TABLE rail_bank_minute (
    provider      text NOT NULL,
    bank          text NOT NULL,  -- code in the registry; empty if the bank is not known
    minute        timestamptz NOT NULL,
    delivered     bigint NOT NULL,
    failed        bigint NOT NULL,
    durations     bigint[] NOT NULL,  -- deliveries by their duration, in the slots of the code
    last_error    text,
    last_error_at timestamptz,
    PRIMARY KEY (provider, bank, minute)
);
CREATE INDEX rail_bank_minute_time ON rail_bank_minute (minute);
