-- Payouts, which are debited immediately, sent by a job, and settled exactly once.

-- Beneficiaries saved by merchants.
CREATE TABLE payout_account (
    merchant_id  bigint NOT NULL,
    id           bigint GENERATED ALWAYS AS IDENTITY,
    method_code  text NOT NULL,
    beneficiary  jsonb NOT NULL,
    account_name text,
    label        text,
    active       boolean NOT NULL DEFAULT true,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, id)
);

-- The fee for a transfer that each rail last reported.
CREATE TABLE transfer_fee (
    provider text NOT NULL,
    currency currency NOT NULL,
    minor    bigint NOT NULL,
    PRIMARY KEY (provider, currency)
);

CREATE TABLE payout (
    merchant_id        bigint NOT NULL,
    trx_id             text NOT NULL,
    environment        environment NOT NULL,
    ref_trx            text NOT NULL,
    status             text NOT NULL DEFAULT 'pending'
                       CHECK (status IN ('pending', 'completed', 'failed', 'canceled')),
    error_code         text,
    guidance           text,  -- message to the merchant in addition to the code
    is_reversed        boolean NOT NULL DEFAULT false,
    currency           currency NOT NULL,
    amount_minor       bigint NOT NULL CHECK (amount_minor > 0),
    fee_minor          bigint NOT NULL CHECK (fee_minor >= 0),
    method_id          integer NOT NULL,
    method_code        text NOT NULL,
    method_name        text NOT NULL,
    provider           text,  -- null: an administrator processes it
    beneficiary        jsonb NOT NULL,
    account_name       text,  -- as the rail resolved it
    description        text,
    ipn_url            text NOT NULL,
    scenario           text CHECK (scenario IN ('success', 'failed', 'pending')),
    remarks            text,
    began_at           timestamptz,  -- saved before the first byte is sent to the provider
    accepted_at        timestamptz,  -- when the provider accepted it
    provider_reference text,
    provider_fee_minor bigint,
    bank_reference     text,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, trx_id),
    UNIQUE (merchant_id, environment, ref_trx),
    CHECK (status IN ('pending', 'completed') OR error_code IS NOT NULL)
) WITH (fillfactor = 80);

-- A merchant may own most of the table, and plans must suit the largest one. The planner therefore
-- assumes a single merchant, so that no plan uses the merchant alone when the full key is
-- available: neither after ANALYZE, which would count the merchants, nor before the first ANALYZE,
-- when two indexes look alike.
ALTER TABLE payout ALTER merchant_id SET (n_distinct = 1);
SELECT pg_restore_attribute_stats(
       'schemaname', 'public', 'relname', 'payout', 'attname', 'merchant_id', 'inherited', false,
       'null_frac', 0::real, 'avg_width', 8, 'n_distinct', 1::real);
