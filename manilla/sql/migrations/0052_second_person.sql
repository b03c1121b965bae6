-- Settlements go through the rule for a second person, and a person's payouts are added up.

-- The person who approved the account, other than the one who set it.
ALTER TABLE settlement_account ADD approved_by text, ADD approved_at timestamptz;

-- The request to a second person, if the settlement needed one.
ALTER TABLE settlement ADD batch_id text;

-- What each person has ordered without a second person in the last 24 hours.
CREATE TABLE payout_alone (
    merchant_id bigint NOT NULL REFERENCES merchant,
    environment environment NOT NULL,
    currency    text NOT NULL,
    person      text NOT NULL,  -- the email address
    subject     text NOT NULL,  -- the payout's reference, or the id of the payout file
    cost_minor  bigint NOT NULL CHECK (cost_minor > 0),
    ordered_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, environment, currency, person, subject)
);
