-- Attempts of payouts whose rail is chosen automatically.

-- The code of the bank at the provider; null unless the provider was chosen automatically.
ALTER TABLE payout ADD rail_bank_code text;

CREATE TABLE payout_attempt (
    merchant_id    bigint NOT NULL,
    trx_id         text NOT NULL,
    number         integer NOT NULL CHECK (number > 0),
    provider       text NOT NULL,
    decision       jsonb NOT NULL,  -- why this provider was chosen
    sent_reference text,  -- of a dead attempt that was sent
    dead_because   text,
    dead_at        timestamptz,  -- since when it is certain that the provider will not pay
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, trx_id, number),
    -- The provider knows the transfer by the payout's reference.
    UNIQUE (merchant_id, trx_id, provider),
    CHECK ((dead_at IS NULL) = (dead_because IS NULL))
);

-- A payout is never sent by two providers.
CREATE UNIQUE INDEX payout_attempt_alive ON payout_attempt (merchant_id, trx_id)
 WHERE dead_at IS NULL;
CREATE INDEX payout_attempt_dead ON payout_attempt (provider, dead_at) WHERE dead_at IS NOT NULL;
ALTER TABLE payout_attempt ALTER merchant_id SET (n_distinct = 1);
