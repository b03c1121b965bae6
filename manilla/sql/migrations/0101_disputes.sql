-- Disputes: a customer's bank takes a payment back.

-- What the merchant owes because the wallet could not cover a debit. Later credits pay it first.
ALTER TABLE wallet ADD short_minor bigint NOT NULL DEFAULT 0;
ALTER TABLE wallet ADD CONSTRAINT wallet_short CHECK (short_minor >= 0) NOT VALID;

-- New disputes below this amount are accepted without asking the merchant. 0: none.
ALTER TABLE wallet ADD accept_disputes_below_minor bigint NOT NULL DEFAULT 0;

-- The part of a payment that disputes hold or took, with the customer's commission.
ALTER TABLE payment ADD disputed_minor bigint NOT NULL DEFAULT 0;
ALTER TABLE payment ADD CONSTRAINT payment_disputed CHECK (
    disputed_minor >= 0
    AND refunded_minor + disputed_minor <= amount_minor + commission_minor) NOT VALID;
ALTER TABLE payment DROP CONSTRAINT payment_scenario_check;
ALTER TABLE payment ADD CONSTRAINT payment_scenario_check CHECK (
    scenario IN ('success', 'failed', 'pending', 'disputed')) NOT VALID;

CREATE TABLE dispute (
    merchant_id        bigint NOT NULL,
    trx_id             text NOT NULL,
    payment_trx_id     text NOT NULL,
    environment        environment NOT NULL,
    ref_trx            text NOT NULL,  -- of the payment
    charge_reference   text,  -- null: in the sandbox
    provider           text NOT NULL,
    provider_reference text NOT NULL,  -- the provider's id of the dispute
    currency           currency NOT NULL,
    amount_minor       bigint NOT NULL CHECK (amount_minor > 0),
    status             text NOT NULL CHECK (
                       status IN ('needs_response', 'submitted', 'won', 'lost', 'accepted')),
    stage              text NOT NULL,
    category           text NOT NULL,
    reason             text NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    opened_at          timestamptz NOT NULL,  -- at the provider
    respond_by         timestamptz NOT NULL,
    missed_at          timestamptz,  -- when the deadline passed without an answer
    reminders          integer NOT NULL DEFAULT 0,
    reported_at        timestamptz NOT NULL,  -- when the latest applied report was requested
    outcome_at         timestamptz,
    -- The provider's account, the merchant's wallet or debt, and the platform's commission.
    withheld_minor     bigint NOT NULL DEFAULT 0 CHECK (withheld_minor >= 0),
    taken_minor        bigint NOT NULL DEFAULT 0 CHECK (taken_minor >= 0),
    short_minor        bigint NOT NULL DEFAULT 0 CHECK (short_minor >= 0),
    fee_minor          bigint NOT NULL DEFAULT 0 CHECK (fee_minor >= 0),
    commission_minor   bigint NOT NULL DEFAULT 0 CHECK (commission_minor >= 0),
    -- The merchant's answer.
    accepted_minor     bigint CHECK (accepted_minor > 0),  -- null: nothing was accepted
    evidence_text      text NOT NULL DEFAULT '',
    evidence_fields    jsonb NOT NULL DEFAULT '{}',
    answer             text CHECK (answer IN (
                       'review', 'waiting', 'sending', 'manual', 'sent', 'rejected')),
    answer_detail      text NOT NULL DEFAULT '',
    answered_at        timestamptz,
    traceparent        text,
    PRIMARY KEY (merchant_id, trx_id),
    UNIQUE (merchant_id, provider, provider_reference)
) WITH (fillfactor = 85);
CREATE INDEX dispute_payment ON dispute (merchant_id, payment_trx_id);
CREATE INDEX dispute_reference ON dispute (merchant_id, environment, ref_trx);
CREATE INDEX dispute_time ON dispute (trx_id COLLATE "C");  -- as payment_time
CREATE INDEX dispute_open ON dispute (merchant_id, environment)
    WHERE status IN ('needs_response', 'submitted');
CREATE INDEX dispute_provider_reference ON dispute (provider_reference);

CREATE TABLE dispute_file (
    merchant_id    bigint NOT NULL,
    trx_id         text NOT NULL,  -- of the dispute
    number         integer NOT NULL,
    name           text NOT NULL,
    media_type     text NOT NULL,
    size_bytes     integer NOT NULL,
    content_sealed bytea NOT NULL,
    provider_file  text,  -- the provider's name of the uploaded file
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, trx_id, number)
);
-- Encrypted bytes cannot be compressed, and a change of the master key reads only their beginning.
ALTER TABLE dispute_file ALTER content_sealed SET STORAGE EXTERNAL;

CREATE TRIGGER as_accepted
    BEFORE UPDATE OF merchant_id, trx_id, payment_trx_id, environment, currency, charge_reference,
                     provider, provider_reference
    ON dispute FOR EACH ROW
    WHEN (OLD.merchant_id IS DISTINCT FROM NEW.merchant_id
          OR OLD.trx_id IS DISTINCT FROM NEW.trx_id
          OR OLD.payment_trx_id IS DISTINCT FROM NEW.payment_trx_id
          OR OLD.environment IS DISTINCT FROM NEW.environment
          OR OLD.currency IS DISTINCT FROM NEW.currency
          OR OLD.charge_reference IS DISTINCT FROM NEW.charge_reference
          OR OLD.provider IS DISTINCT FROM NEW.provider
          -- A dispute that a statement named gets the provider's id when the provider reports it.
          OR (OLD.provider_reference IS DISTINCT FROM NEW.provider_reference
              AND NOT starts_with(OLD.provider_reference, 'statement:')))
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();
