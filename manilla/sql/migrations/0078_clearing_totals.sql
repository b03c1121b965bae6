-- The sum of each clearing account up to a posting, so that a comparison with a provider's balance
-- reads only the later postings. The worker adds the postings that the hash chain covers.
CREATE TABLE clearing_total (
    account     text NOT NULL,
    environment text NOT NULL,
    currency    text NOT NULL,
    minor       bigint NOT NULL,
    PRIMARY KEY (account, environment, currency)
);

-- The last posting that is part of the totals. Adding postings locks this row.
CREATE TABLE clearing_total_head (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    last_id bigint NOT NULL
);
INSERT INTO clearing_total_head (last_id) VALUES (0);
