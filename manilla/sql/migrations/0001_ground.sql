-- Merchants, credentials, wallets, the ledger, settings and the rate limit.

CREATE DOMAIN environment AS text CHECK (VALUE IN ('sandbox', 'production'));
CREATE DOMAIN currency AS text CHECK (VALUE ~ '^[A-Z]{3}$');

-- Processes poll this table to learn that data they cache has changed. The transaction that makes
-- the change updates the row, so versions become visible in commit order.
CREATE TABLE change (
    topic   text PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0
);
INSERT INTO change (topic) VALUES ('settings'), ('merchants');

-- Identifies the functions and grants that were last applied.
CREATE TABLE function_set (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    digest text NOT NULL
);
INSERT INTO function_set (digest) VALUES ('none yet');

CREATE TABLE setting (
    key        text PRIMARY KEY,
    value      text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- A value sealed with the master key, used to detect a wrong key at startup.
CREATE TABLE master_key_proof (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    sealed bytea NOT NULL
);

CREATE TABLE merchant (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name               text NOT NULL,
    email              text NOT NULL,
    status             text NOT NULL
                       CHECK (status IN ('pending', 'approved', 'rejected', 'disabled')),
    commission_percent numeric(7, 4) NOT NULL DEFAULT 0
                       CHECK (commission_percent BETWEEN 0 AND 100),
    commission_bearer  text NOT NULL DEFAULT 'customer'
                       CHECK (commission_bearer IN ('customer', 'merchant')),
    gateways           text[],  -- null: all available gateways
    payouts_enabled    boolean NOT NULL DEFAULT true,
    kyc_verified       boolean NOT NULL DEFAULT false,
    phone_verified     boolean NOT NULL DEFAULT false,
    bvn_sealed         bytea,
    currencies         text[] NOT NULL,
    version            bigint NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX merchant_version ON merchant (version);

CREATE TABLE merchant_key (
    merchant_key text PRIMARY KEY,
    environment  environment NOT NULL,
    merchant_id  bigint NOT NULL REFERENCES merchant,
    UNIQUE (merchant_id, environment)
);

CREATE TABLE credential (
    merchant_id   bigint NOT NULL REFERENCES merchant,
    environment   environment NOT NULL,
    generation    integer NOT NULL,
    api_key_hash  bytea NOT NULL UNIQUE,
    secret_sealed bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz,  -- null: the current one
    PRIMARY KEY (merchant_id, environment, generation)
);

CREATE TABLE wallet (
    merchant_id   bigint NOT NULL,
    environment   environment NOT NULL,
    currency      currency NOT NULL,
    balance_minor bigint NOT NULL DEFAULT 0 CHECK (balance_minor >= 0),
    status        text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'inactive')),
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, environment, currency)
) WITH (fillfactor = 50);

-- Wallets belong to merchants. The other accounts belong to the platform but are kept per merchant,
-- so that a posting involves only one merchant. Only wallets also store their balance in a table.
CREATE DOMAIN ledger_account AS text CHECK (VALUE ~
    '^(wallet|commission|payout_fee|in_flight|suspense|adjustment|bank|(clearing|provider_fee):[a-z0-9_]+)$');

CREATE TABLE posting (
    merchant_id bigint NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    environment environment NOT NULL,
    currency    currency NOT NULL,
    kind        text NOT NULL,
    trx_id      text NOT NULL,
    reason      text,
    posted_at   timestamptz NOT NULL DEFAULT now(),
    -- Deliberately the only index: whatever the statistics say, the planner can find a posting only
    -- by its full key.
    PRIMARY KEY (merchant_id, trx_id, kind)
);

CREATE TABLE entry (
    merchant_id   bigint NOT NULL,
    posting_id    bigint NOT NULL,
    line          smallint NOT NULL,
    environment   environment NOT NULL,
    currency      currency NOT NULL,
    account       ledger_account NOT NULL,
    amount_minor  bigint NOT NULL CHECK (amount_minor <> 0),
    balance_minor bigint,  -- the wallet's balance after this entry
    PRIMARY KEY (merchant_id, posting_id, line),
    CHECK ((account = 'wallet') = (balance_minor IS NOT NULL))
);
CREATE INDEX entry_wallet ON entry (merchant_id, environment, currency, posting_id)
 WHERE account = 'wallet';

-- The application's role may not change the ledger. This trigger also stops mistakes by other
-- roles, including the owner.
CREATE FUNCTION refuse_to_rewrite_the_books() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The ledger is append-only: % on % is refused.', TG_OP, TG_TABLE_NAME;
END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON posting
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

CREATE UNLOGGED TABLE rate_window (
    bucket     text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    used       bigint NOT NULL
) WITH (fillfactor = 50);
