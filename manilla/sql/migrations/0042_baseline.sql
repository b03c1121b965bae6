-- The schema at version 0042: the first 42 migrations as one.
--
-- Later migrations change some of what is created here.

CREATE DOMAIN environment AS text CHECK (VALUE IN ('sandbox', 'production'));
CREATE DOMAIN currency AS text CHECK (VALUE ~ '^[A-Z]{3}$');
CREATE DOMAIN realm AS text CHECK (VALUE IN ('dashboard', 'console'));

-- Wallets belong to merchants. The other accounts belong to the platform but are kept per merchant,
-- so that a posting involves only one merchant. Only wallets also store their balance in a table.
CREATE DOMAIN ledger_account AS text CHECK (VALUE ~
    '^(wallet|commission|payout_fee|in_flight|suspense|adjustment|bank|(clearing|provider_fee):[a-z0-9_]+)$');

-- The application's role may not change what is append-only. This trigger also stops mistakes by
-- other roles, including the owner.
CREATE FUNCTION refuse_to_rewrite_the_books() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The ledger is append-only: % on % is refused.', TG_OP, TG_TABLE_NAME;
END $$;

-- The instance ------------------------------------------------------------------------------------

-- Processes poll this table to learn that data they cache has changed. The transaction that makes
-- the change updates the row, so versions become visible in commit order.
CREATE TABLE change (
    topic   text PRIMARY KEY,
    version bigint NOT NULL DEFAULT 0
);
INSERT INTO change (topic)
VALUES ('settings'), ('merchants'), ('providers'), ('rails'), ('methods'), ('banks');

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

CREATE UNLOGGED TABLE rate_window (
    bucket     text PRIMARY KEY,
    started_at timestamptz NOT NULL,
    used       bigint NOT NULL
) WITH (fillfactor = 50);

-- When the ledger was last checked, and the result. One row. A request for a check sets `asked_at`;
-- the one worker that runs it sets `began_at`.
CREATE TABLE proof (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    asked_at timestamptz,
    began_at timestamptz,
    ended_at timestamptz,
    findings jsonb NOT NULL DEFAULT '[]',  -- of the last completed check
    problem  text                          -- why a check did not complete
);
INSERT INTO proof DEFAULT VALUES;

-- Merchants ---------------------------------------------------------------------------------------

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
    updated_at         timestamptz NOT NULL DEFAULT now(),
    status_reason      text,  -- for rejecting or disabling it; shown to the merchant
    sends_receipts     boolean NOT NULL DEFAULT false,  -- whether its customers get a receipt
    level              text NOT NULL DEFAULT 'unverified'
                       CHECK (level IN ('unverified', 'verified')),
    -- Whether payouts go only to saved accounts.
    accounts_locked    boolean NOT NULL DEFAULT false
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
    last_used_at  timestamptz,
    PRIMARY KEY (merchant_id, environment, generation)
);

-- The order in which a merchant prefers its gateways.
CREATE TABLE gateway_order (
    merchant_id bigint NOT NULL REFERENCES merchant,
    environment environment NOT NULL,
    codes       text[] NOT NULL,  -- of deposit methods, first the preferred one
    PRIMARY KEY (merchant_id, environment)
);

-- The log of API requests, written in batches, after the response. It contains no key or signature,
-- and nothing from the body except the merchant's reference.
CREATE TABLE api_request (
    merchant_id  bigint NOT NULL,
    at           timestamptz NOT NULL,
    request_id   text NOT NULL,
    environment  environment NOT NULL,
    method       text NOT NULL,
    path         text NOT NULL,
    status       smallint NOT NULL,
    error_code   text,
    error        text,
    errors       jsonb,  -- messages by invalid field or header
    milliseconds real NOT NULL,
    address      text NOT NULL,
    user_agent   text,
    ref_trx      text,
    trx_id       text,
    PRIMARY KEY (merchant_id, at, request_id)
);
CREATE INDEX api_request_age ON api_request USING brin (at) WITH (autosummarize = on);

-- Responses to requests with an Idempotency-Key.
CREATE TABLE idempotency (
    merchant_id bigint NOT NULL,
    environment environment NOT NULL,
    endpoint    text NOT NULL,
    key         text NOT NULL,
    body_hash   text NOT NULL,
    answer      text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, environment, endpoint, key)
);
CREATE INDEX idempotency_age ON idempotency USING brin (created_at);

-- The ledger --------------------------------------------------------------------------------------

CREATE TABLE wallet (
    merchant_id   bigint NOT NULL,
    environment   environment NOT NULL,
    currency      currency NOT NULL,
    balance_minor bigint NOT NULL DEFAULT 0 CHECK (balance_minor >= 0),
    status        text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'inactive')),
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, environment, currency)
) WITH (fillfactor = 50);

CREATE TABLE posting (
    merchant_id bigint NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    environment environment NOT NULL,
    currency    currency NOT NULL,
    kind        text NOT NULL,
    trx_id      text NOT NULL,
    reason      text,
    posted_at   timestamptz NOT NULL DEFAULT now(),
    -- The other indexes are BRIN: whatever the statistics say, the planner can find a posting only
    -- by its full key.
    PRIMARY KEY (merchant_id, trx_id, kind)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON posting
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();
-- Only lists for people find postings by id and time. Postings are written in that order, so a BRIN
-- index is enough and makes new postings no more expensive.
CREATE INDEX posting_place ON posting USING brin (id, posted_at)
  WITH (pages_per_range = 32, autosummarize = on);
CREATE INDEX posting_age ON posting USING brin (posted_at);

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
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- The events of each transaction, in order.
CREATE TABLE timeline (
    merchant_id bigint NOT NULL,
    trx_id      text NOT NULL,
    number      integer NOT NULL,
    at          timestamptz NOT NULL DEFAULT now(),
    event       text NOT NULL,
    from_status text NOT NULL,
    to_status   text NOT NULL,
    detail      text,
    PRIMARY KEY (merchant_id, trx_id, number)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON timeline
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- Jobs --------------------------------------------------------------------------------------------

CREATE SEQUENCE job_fence;  -- unique for every claim, even if a job is deleted and added again

-- Work that is due now or later. A job is deleted when it is done, so the table stays small. Part
-- of each page stays free, so that claiming jobs fits the new row versions into the same page and
-- updates no index. Finished jobs leave dead rows at the front of the queue, where the next claim
-- searches, so they are vacuumed early.
CREATE TABLE job (
    merchant_id bigint NOT NULL,  -- 0: no known merchant
    kind        text NOT NULL,
    subject     text NOT NULL,
    due_at      timestamptz NOT NULL,
    attempts    integer NOT NULL DEFAULT 0,
    failures    integer NOT NULL DEFAULT 0,  -- consecutive
    fence       bigint NOT NULL DEFAULT 0,   -- raised by every claim and every new cause
    lease       bigint,                      -- the fence of the claim that holds it
    leased_until timestamptz,
    parked_at   timestamptz,                 -- failed too often; waits for a person
    last_error  text,
    PRIMARY KEY (merchant_id, kind, subject)
) WITH (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
CREATE INDEX job_due ON job (kind, due_at) WHERE parked_at IS NULL;
-- For fair scheduling, merchant by merchant, however many jobs a merchant has waiting.
CREATE INDEX job_turns ON job (merchant_id, due_at) WHERE kind = 'notify' AND parked_at IS NULL;
CREATE INDEX job_parked ON job (parked_at) WHERE parked_at IS NOT NULL;

-- Providers, rails, methods and banks -------------------------------------------------------------

-- Accounts besides those that have the name of their kind of provider.
CREATE TABLE provider_account (
    name       text PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9]{1,30}$'),
    kind       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE provider_credentials (
    provider   text PRIMARY KEY,
    sealed     bytea NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- A rail is a provider in one direction.
CREATE TABLE rail_state (
    provider      text NOT NULL,
    direction     text NOT NULL CHECK (direction IN ('pay_in', 'pay_out')),
    is_down       boolean NOT NULL DEFAULT false,
    changed_at    timestamptz NOT NULL DEFAULT now(),
    last_error    text,
    last_error_at timestamptz,
    drained_since timestamptz,  -- null: an administrator has not drained it
    PRIMARY KEY (provider, direction)
);

CREATE TABLE rail_minute (
    provider     text NOT NULL,
    direction    text NOT NULL,
    minute       timestamptz NOT NULL,
    done         bigint NOT NULL,
    refused      bigint NOT NULL,
    unknown      bigint NOT NULL,
    milliseconds bigint NOT NULL,
    PRIMARY KEY (provider, direction, minute)
);

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

-- The fee for a transfer that each rail last reported.
CREATE TABLE transfer_fee (
    provider text NOT NULL,
    currency currency NOT NULL,
    minor    bigint NOT NULL,
    PRIMARY KEY (provider, currency)
);

-- Each provider account's own bank codes, and the banks that they mean.
CREATE TABLE provider_bank (
    provider      text NOT NULL,
    code          text NOT NULL,
    name          text NOT NULL,  -- as the provider gives it
    bank          text,  -- the bank's code in our registry
    matched_by    text CHECK (matched_by IN ('code', 'name', 'manual')),
    doubt         text CHECK (doubt IN ('contradiction', 'duplicate', 'renamed')),
    is_listed     boolean NOT NULL,  -- whether the latest list has it
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, code),
    CHECK (bank IS NULL OR matched_by IS NOT NULL)
);

CREATE TABLE method (
    id                integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind              text NOT NULL CHECK (kind IN ('deposit', 'withdraw')),
    code              text NOT NULL UNIQUE,
    name              text NOT NULL,
    provider          text,  -- null: processed by an administrator
    flow              text CHECK (flow IN ('hosted', 'virtual_account')),
    currency          currency NOT NULL,
    active            boolean NOT NULL DEFAULT true,
    position          integer NOT NULL,
    min_minor         bigint NOT NULL CHECK (min_minor >= 0),
    max_minor         bigint CHECK (max_minor >= min_minor),
    fee_fixed_minor   bigint NOT NULL DEFAULT 0 CHECK (fee_fixed_minor >= 0),
    fee_percent       numeric(7, 4) NOT NULL DEFAULT 0 CHECK (fee_percent BETWEEN 0 AND 100),
    fee_minimum_minor bigint CHECK (fee_minimum_minor >= 0),
    fee_maximum_minor bigint CHECK (fee_maximum_minor >= fee_minimum_minor),
    CHECK (kind = 'withdraw' OR (provider IS NOT NULL AND flow IS NOT NULL))
);

INSERT INTO method (kind, code, name, provider, flow, currency, position, min_minor, max_minor)
VALUES
('deposit', 'providera-ngn', 'Provider A checkout', 'providera', 'hosted', 'NGN', 1, 100, NULL),
('deposit', 'providera_ngn_va', 'Provider A bank transfer', 'providera', 'virtual_account', 'NGN',
 2, 100, NULL),
('deposit', 'providerb-ngn', 'Provider B checkout', 'providerb', 'hosted', 'NGN', 3, 100, NULL),
('deposit', 'providerb_ngn_va', 'Provider B bank transfer', 'providerb', 'virtual_account', 'NGN',
 4, 100, NULL),
('deposit', 'providerc-ngn', 'Provider C checkout', 'providerc', 'hosted', 'NGN', 5, 100, NULL),
('withdraw', 'providera_ngn_transfer', 'Provider A bank transfer', 'providera', NULL, 'NGN',
 1, 10000, 500000000),
('withdraw', 'providerb_ngn_transfer', 'Provider B bank transfer', 'providerb', NULL, 'NGN',
 2, 10000, 500000000),
('withdraw', 'providerc_ngn_transfer', 'Provider C bank transfer', 'providerc', NULL, 'NGN',
 3, 50000, 500000000),
('withdraw', 'platform', 'Manual bank transfer', NULL, NULL, 'NGN', 4, 50000, 100000000);

-- Payments ----------------------------------------------------------------------------------------

CREATE TABLE payment (
    merchant_id           bigint NOT NULL,
    trx_id                text NOT NULL,
    environment           environment NOT NULL,
    ref_trx               text NOT NULL,
    status                text NOT NULL DEFAULT 'pending'
                          CHECK (status IN ('pending', 'success', 'failed')),
    error_code            text,  -- why it failed
    currency              currency NOT NULL,
    amount_minor          bigint NOT NULL CHECK (amount_minor > 0),
    commission_minor      bigint NOT NULL CHECK (commission_minor >= 0),
    commission_bearer     text NOT NULL CHECK (commission_bearer IN ('customer', 'merchant')),
    commission_trx_id     text,
    description           text,
    customer_name         text,
    customer_email        text,
    ipn_url               text NOT NULL,
    success_redirect      text,
    cancel_redirect       text,
    allow_payment_methods text[] NOT NULL,
    is_legacy             boolean NOT NULL,
    scenario              text CHECK (scenario IN ('success', 'failed', 'pending')),
    remarks               text,
    created_at            timestamptz NOT NULL DEFAULT now(),
    updated_at            timestamptz NOT NULL DEFAULT now(),
    expires_at            timestamptz NOT NULL,
    opened_at             timestamptz,  -- when checkout was first opened
    credited_charge       text,         -- the charge that was credited to the wallet
    refunded_minor        bigint NOT NULL DEFAULT 0,
    link_id               text,         -- the payment link that it was created with
    PRIMARY KEY (merchant_id, trx_id),
    UNIQUE (merchant_id, environment, ref_trx),
    CHECK (refunded_minor BETWEEN 0 AND amount_minor),
    CHECK ((status = 'failed') = (error_code IS NOT NULL))
) WITH (fillfactor = 85);
CREATE UNIQUE INDEX payment_commission ON payment (merchant_id, commission_trx_id)
    WHERE commission_trx_id IS NOT NULL;
CREATE INDEX payment_of_link ON payment (merchant_id, link_id, trx_id) WHERE link_id IS NOT NULL;
CREATE INDEX payment_email ON payment (lower(customer_email), merchant_id, trx_id)
    WHERE customer_email IS NOT NULL;
-- For lists of all merchants. Queries must name the collation to use this index, so that the
-- planner cannot choose it for one merchant's rows, which it believes to be the whole table.
CREATE INDEX payment_time ON payment (trx_id COLLATE "C");
CREATE INDEX payment_reference ON payment
    USING brin (lower(ref_trx) text_bloom_ops(n_distinct_per_range = 1500))
    WITH (pages_per_range = 64, autosummarize = on);

-- One attempt to collect a payment. Saved before the first byte is sent to the provider.
CREATE TABLE charge (
    merchant_id        bigint NOT NULL,
    reference          text NOT NULL,
    trx_id             text NOT NULL,
    number             integer NOT NULL,
    method_code        text NOT NULL,
    provider           text NOT NULL,
    currency           currency NOT NULL,
    amount_minor       bigint NOT NULL CHECK (amount_minor > 0),
    status             text NOT NULL DEFAULT 'opening'
                       CHECK (status IN
                              ('opening', 'open', 'paid', 'suspense', 'failed', 'expired')),
    checkout_url       text,
    bank_name          text,
    account_number     text,
    account_name       text,
    account_expires_at timestamptz,
    paid_minor         bigint,
    reason             text,
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    error_code         text,  -- why the provider declined it; null: not declined by the provider
    provider_reference text,  -- saved when the charge is paid
    PRIMARY KEY (merchant_id, reference),
    UNIQUE (merchant_id, trx_id, number)
) WITH (fillfactor = 70);
CREATE INDEX charge_provider_reference ON charge (provider_reference)
    WHERE provider_reference IS NOT NULL;
CREATE INDEX charge_account ON charge
    USING brin (account_number text_bloom_ops(n_distinct_per_range = 1500))
    WITH (pages_per_range = 64, autosummarize = on);

CREATE TABLE refund (
    merchant_id      bigint NOT NULL,
    trx_id           text NOT NULL,
    payment_trx_id   text NOT NULL,
    environment      environment NOT NULL,
    currency         currency NOT NULL,
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    reason           text NOT NULL,
    status           text NOT NULL DEFAULT 'pending'
                     CHECK (status IN ('pending', 'completed', 'failed')),
    provider         text,  -- null: in the sandbox
    charge_reference text,
    by_operator      boolean NOT NULL DEFAULT false,  -- an administrator confirms that it was paid
    sent_at          timestamptz,
    detail           text,
    created_at       timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    on_behalf        boolean NOT NULL DEFAULT false,  -- ordered by an administrator
    commission_minor bigint NOT NULL DEFAULT 0  -- the part of the amount the platform bears
                     CHECK (commission_minor >= 0 AND commission_minor < amount_minor),
    first_sent_at    timestamptz,
    provider_reference text,
    PRIMARY KEY (merchant_id, trx_id)
);
CREATE INDEX refund_payment ON refund (merchant_id, payment_trx_id);
CREATE INDEX refund_provider_reference ON refund (provider_reference)
    WHERE provider_reference IS NOT NULL;
CREATE INDEX refund_time ON refund (trx_id COLLATE "C");  -- as payment_time

CREATE TABLE payment_link (
    merchant_id      bigint NOT NULL REFERENCES merchant,
    id               text NOT NULL,
    environment      environment NOT NULL,
    title            text NOT NULL,
    description      text,
    currency         currency NOT NULL,
    amount_minor     bigint CHECK (amount_minor > 0),  -- null: the customer enters the amount
    expires_at       timestamptz,
    single_use       boolean NOT NULL,
    success_redirect text,
    disabled_at      timestamptz,
    paid_count       bigint NOT NULL DEFAULT 0,  -- successful payments
    paid_minor       bigint NOT NULL DEFAULT 0,  -- the sum of their amounts
    created_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, id),
    CHECK (NOT single_use OR paid_count <= 1)
);

-- Payouts -----------------------------------------------------------------------------------------

-- Payouts are debited immediately, sent by a job, and settled exactly once.
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
    last_sent_at       timestamptz,  -- last retry; saved before it is sent
    asked_at           timestamptz,  -- last query by reconciliation, after the final status
    ordered_by         text,  -- the user, in the dashboard; null: through the API
    -- Our reference in the form that the provider accepts; saved before the first byte is sent.
    -- Null: the transaction id.
    sent_reference     text,
    session_id         text,  -- of the interbank transfer, as the provider reports it
    -- The code of the bank at the provider; null unless the provider was chosen automatically.
    rail_bank_code     text,
    PRIMARY KEY (merchant_id, trx_id),
    UNIQUE (merchant_id, environment, ref_trx),
    CHECK (status IN ('pending', 'completed') OR error_code IS NOT NULL)
) WITH (fillfactor = 80);
-- A BRIN index does not prevent HOT updates, as a B-tree index would.
CREATE INDEX payout_age ON payout USING brin (created_at);
-- Has only columns that never change, so that changing a payout's status updates no index.
CREATE INDEX payout_by_hand ON payout (merchant_id, trx_id) WHERE provider IS NULL;
-- Both columns are written once or twice in a payout's life, so few updates lose HOT.
CREATE INDEX payout_session_id ON payout (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX payout_provider_reference ON payout (provider_reference)
    WHERE provider_reference IS NOT NULL;
CREATE INDEX payout_time ON payout (trx_id COLLATE "C");  -- as payment_time
CREATE INDEX payout_reference ON payout
    USING brin (lower(ref_trx) text_bloom_ops(n_distinct_per_range = 1500))
    WITH (pages_per_range = 64, autosummarize = on);
CREATE INDEX payout_beneficiary ON payout
    (coalesce(beneficiary ->> 'account_number', beneficiary ->> 'Account Number'), merchant_id,
     trx_id);

-- Attempts of payouts whose rail is chosen automatically.
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
    account_name   text,  -- as the provider resolved it; of a dead attempt
    PRIMARY KEY (merchant_id, trx_id, number),
    -- The provider knows the transfer by the payout's reference.
    UNIQUE (merchant_id, trx_id, provider),
    CHECK ((dead_at IS NULL) = (dead_because IS NULL))
);
-- A payout is never sent by two providers.
CREATE UNIQUE INDEX payout_attempt_alive ON payout_attempt (merchant_id, trx_id)
 WHERE dead_at IS NULL;
CREATE INDEX payout_attempt_dead ON payout_attempt (provider, dead_at) WHERE dead_at IS NOT NULL;

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

-- Payouts by users above this amount, with the fee, need a second person; null: never.
CREATE TABLE payout_threshold (
    merchant_id  bigint NOT NULL,
    currency     currency NOT NULL,
    amount_minor bigint CHECK (amount_minor >= 0),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, currency)
);

-- A file of bulk payouts. Nothing is paid until a user confirms it.
CREATE TABLE payout_batch (
    merchant_id  bigint NOT NULL,
    id           text NOT NULL,  -- prefix of its rows' references
    environment  environment NOT NULL,
    status       text NOT NULL DEFAULT 'draft'
                 CHECK (status IN ('draft', 'asked', 'running', 'done', 'refused')),
    method_id    integer NOT NULL,
    method_name  text NOT NULL,
    currency     currency NOT NULL,
    file_name    text NOT NULL,
    uploaded_by  text NOT NULL,
    confirmed_by text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    confirmed_at timestamptz,
    ended_at     timestamptz,
    kind         text NOT NULL DEFAULT 'file' CHECK (kind IN ('file', 'single')),
    revision     integer NOT NULL DEFAULT 0,  -- raised by every change to the rows of a draft
    ipn_url      text NOT NULL DEFAULT '',
    asked_by_id  bigint,  -- the user who asked for a second person; may not approve
    asked_by     text,
    asked_at     timestamptz,
    expires_at   timestamptz,
    ended_by     text,  -- the user who stopped or refused it
    stopped_at   timestamptz,
    PRIMARY KEY (merchant_id, id),
    CONSTRAINT payout_batch_confirmed_check
        CHECK (status NOT IN ('running', 'done') OR confirmed_by IS NOT NULL),
    CONSTRAINT payout_batch_asked_check
        CHECK (status <> 'asked' OR (asked_by_id IS NOT NULL AND asked_by IS NOT NULL
                                     AND expires_at IS NOT NULL))
);

CREATE TABLE payout_batch_row (
    merchant_id    bigint NOT NULL,
    batch_id       text NOT NULL,
    number         integer NOT NULL,
    state          text NOT NULL
                   CHECK (state IN ('faulty', 'ready', 'paid', 'refused')),
    amount_text    text NOT NULL,  -- as in the file
    amount_minor   bigint NOT NULL,
    fee_minor      bigint NOT NULL,
    bank_code      text NOT NULL,
    account_number text NOT NULL,
    name           text NOT NULL,
    ref_trx        text NOT NULL,
    description    text NOT NULL,
    remark         text,  -- an error or a warning
    trx_id         text,
    faults         jsonb NOT NULL DEFAULT '{}',  -- errors by column
    resolved_name  text,  -- the account holder, as the bank has it
    name_check     text NOT NULL DEFAULT 'none'
                   CHECK (name_check IN ('none', 'waiting', 'agrees', 'differs')),
    PRIMARY KEY (merchant_id, batch_id, number),
    CHECK (state <> 'paid' OR trx_id IS NOT NULL)
);

-- Webhooks, notifications and cases ---------------------------------------------------------------

-- Webhooks from providers, as received.
CREATE TABLE webhook (
    merchant_id      bigint NOT NULL,  -- 0: the reference is not ours
    provider         text NOT NULL,
    digest           bytea NOT NULL,
    kind             text NOT NULL,
    reference        text NOT NULL,
    claimed_amount   numeric,
    claimed_currency text,
    claimed_status   text,  -- of a transfer
    body             bytea NOT NULL,
    received_at      timestamptz NOT NULL DEFAULT now(),
    deliveries       integer NOT NULL DEFAULT 1,
    last_received_at timestamptz NOT NULL DEFAULT now(),
    query_due_at     timestamptz,  -- null: about another provider's transaction, so ignored
    PRIMARY KEY (merchant_id, provider, digest)
);
CREATE INDEX webhook_reference ON webhook (merchant_id, reference);
-- Rows are written in order of this column, so a BRIN index is enough.
CREATE INDEX webhook_age ON webhook USING brin (received_at);

-- Notifications to merchants, written in the same transaction as the status change.
CREATE TABLE notification (
    merchant_id bigint NOT NULL,
    id          text NOT NULL,
    environment environment NOT NULL,
    trx_id      text NOT NULL,
    event       text NOT NULL,
    status      text NOT NULL,
    url         text NOT NULL,
    body        bytea NOT NULL,
    state       text NOT NULL DEFAULT 'waiting'
                CHECK (state IN ('waiting', 'delivered', 'failed')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    attempts    integer NOT NULL DEFAULT 0,  -- since it was created or last resent
    decided_at  timestamptz,
    PRIMARY KEY (merchant_id, id)
);
CREATE INDEX notification_trx ON notification (merchant_id, trx_id);
CREATE INDEX notification_age ON notification (created_at);
CREATE INDEX notification_of_merchant ON notification (merchant_id, created_at);
CREATE INDEX notification_waiting ON notification (created_at) WHERE state = 'waiting';
CREATE INDEX notification_failed ON notification (merchant_id, created_at) WHERE state = 'failed';

-- The request and response of each attempt. The request body is in `notification`.
CREATE TABLE delivery_attempt (
    merchant_id     bigint NOT NULL,
    notification_id text NOT NULL,
    number          integer NOT NULL,
    at              timestamptz NOT NULL,
    headers         jsonb NOT NULL,
    status          integer,  -- null: no response
    answer          bytea,    -- the start of the response
    milliseconds    integer NOT NULL,
    error           text,
    PRIMARY KEY (merchant_id, notification_id, number)
);

-- Cases for administrators: at most one per kind and reference.
CREATE TABLE operator_case (
    merchant_id bigint NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    environment environment,
    kind        text NOT NULL,
    reference   text NOT NULL,
    trx_id      text,
    currency    text,
    amount_minor bigint,
    detail      text NOT NULL,
    status      text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'resolved')),
    resolution  text,
    opened_at   timestamptz NOT NULL DEFAULT now(),
    resolved_at timestamptz,
    vanished_at timestamptz,  -- when its cause was gone
    PRIMARY KEY (merchant_id, id),
    UNIQUE (merchant_id, kind, reference)
);

-- A case that is reopened keeps its earlier decisions.
CREATE TABLE case_event (
    merchant_id bigint NOT NULL,
    case_id     bigint NOT NULL,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    at          timestamptz NOT NULL DEFAULT now(),
    event       text NOT NULL CHECK (event IN
                       ('opened', 'reopened', 'resolved', 'vanished', 'returned')),
    detail      text NOT NULL,
    PRIMARY KEY (merchant_id, case_id, id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON case_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- Reconciliation ----------------------------------------------------------------------------------

-- One movement of our balance at a provider, as the provider reports it.
CREATE TABLE statement_line (
    merchant_id         bigint NOT NULL DEFAULT 0,  -- 0: a statement belongs to no merchant
    provider            text NOT NULL,
    line_id             text NOT NULL,
    booked_at           timestamptz NOT NULL,
    currency            currency NOT NULL,
    amount_minor        bigint NOT NULL CHECK (amount_minor <> 0),  -- positive: into our balance
    kind                text NOT NULL,
    reference           text,
    provider_reference  text,
    description         text NOT NULL DEFAULT '',
    balance_after_minor bigint,
    imported_at         timestamptz NOT NULL DEFAULT now(),
    trx_id              text,  -- the transaction of ours that it belongs to; null: not found yet
    matched_by          text CHECK (matched_by IN ('reference', 'provider_reference', 'amount')),
    PRIMARY KEY (merchant_id, provider, line_id)
);
CREATE INDEX statement_line_day ON statement_line (provider, currency, booked_at);
CREATE INDEX statement_line_trx ON statement_line (provider, trx_id);
CREATE INDEX statement_line_nameless ON statement_line (provider) WHERE trx_id IS NULL;

-- A copy of each posting's entry in a clearing account, so that the ledger's tables, which are
-- optimized for writing, are not searched for every comparison.
CREATE TABLE clearing_movement (
    merchant_id        bigint NOT NULL,
    posting_id         bigint NOT NULL,
    provider           text NOT NULL,
    currency           currency NOT NULL,
    trx_id             text NOT NULL,  -- of the payment, payout, refund or settlement
    provider_reference text,
    kind               text NOT NULL,  -- as in statement_line
    booked_at          timestamptz NOT NULL,
    amount_minor       bigint NOT NULL,  -- positive: into our balance
    PRIMARY KEY (merchant_id, posting_id)
);
CREATE INDEX clearing_movement_day ON clearing_movement (provider, currency, booked_at);
CREATE INDEX clearing_movement_trx ON clearing_movement (provider, trx_id);
CREATE INDEX clearing_movement_reference ON clearing_movement (provider, provider_reference)
    WHERE provider_reference IS NOT NULL;

-- The transactions whose lines and movements were not compared yet, or differ. A line without a
-- transaction is unmatched too; its trx_id is null.
CREATE TABLE unmatched_transaction (
    merchant_id bigint NOT NULL DEFAULT 0,  -- 0: a statement belongs to no merchant
    provider    text NOT NULL,
    trx_id      text NOT NULL,
    PRIMARY KEY (merchant_id, provider, trx_id)
);

-- The days in Lagos whose statement was imported.
CREATE TABLE statement_day (
    provider        text NOT NULL,
    currency        currency NOT NULL,
    day             date NOT NULL,
    kinds           text[] NOT NULL,  -- the kinds of lines that the statement lists
    imported_at     timestamptz NOT NULL DEFAULT now(),
    -- Figures as of the last comparison.
    lines           bigint NOT NULL DEFAULT 0,
    lines_minor     bigint NOT NULL DEFAULT 0,
    open_lines      bigint NOT NULL DEFAULT 0,
    movements       bigint NOT NULL DEFAULT 0,
    movements_minor bigint NOT NULL DEFAULT 0,
    open_movements  bigint NOT NULL DEFAULT 0,
    ledger_minor    bigint,  -- our ledger's balance at the end of the day
    balance_minor   bigint,  -- the provider's balance after the day's last line, if it says so
    -- The lines that `manilla provider check` made. Their trx_id is the reference of the check.
    checks          bigint NOT NULL DEFAULT 0,
    checks_minor    bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (provider, currency, day)
);

-- The balance that a provider reported first after the end of a day, or else last on that day.
CREATE TABLE reported_balance (
    provider      text NOT NULL,
    currency      currency NOT NULL,
    day           date NOT NULL,  -- in Lagos
    balance_minor bigint NOT NULL,
    ledger_minor  bigint NOT NULL,  -- our ledger's balance at that time
    reported_at   timestamptz NOT NULL,
    PRIMARY KEY (provider, currency, day)
);

-- The figures of a day as an accountant signed them. A day may be signed again.
CREATE TABLE day_sign_off (
    provider              text NOT NULL,
    currency              currency NOT NULL,
    day                   date NOT NULL,
    signed_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    signed_by             text NOT NULL,
    note                  text NOT NULL,
    lines                 bigint NOT NULL,
    lines_minor           bigint NOT NULL,
    open_lines            bigint NOT NULL,
    movements             bigint NOT NULL,
    movements_minor       bigint NOT NULL,
    open_movements        bigint NOT NULL,
    ledger_minor          bigint,
    balance_minor         bigint,
    reported_minor        bigint,
    reported_ledger_minor bigint,
    reported_at           timestamptz,
    PRIMARY KEY (provider, currency, day, signed_at)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON day_sign_off
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- Since when a provider's balance has differed from our ledger.
CREATE TABLE clearing_difference (
    provider text NOT NULL,
    currency currency NOT NULL,
    minor    bigint NOT NULL,  -- as last seen; 0: no difference
    since    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, currency)
);

-- Settlements -------------------------------------------------------------------------------------

-- The account of each merchant and currency to which its balance is settled, with every account
-- that was ever set. The newest one that was not canceled and has taken effect applies; at most one
-- waits.
CREATE TABLE settlement_account (
    merchant_id  bigint NOT NULL REFERENCES merchant,
    id           bigint GENERATED ALWAYS AS IDENTITY,
    environment  text NOT NULL CHECK (environment IN ('sandbox', 'production')),
    currency     text NOT NULL,
    method_code  text NOT NULL,
    beneficiary  jsonb NOT NULL,
    bank_name    text NOT NULL,
    account_name text NOT NULL,  -- as the rail resolved it
    verified_at  timestamptz NOT NULL DEFAULT now(),
    set_by       text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    effective_at timestamptz NOT NULL,
    canceled_at  timestamptz,
    PRIMARY KEY (merchant_id, id)
);

CREATE TABLE settlement_plan (
    merchant_id   bigint NOT NULL REFERENCES merchant,
    environment   text NOT NULL CHECK (environment IN ('sandbox', 'production')),
    currency      text NOT NULL,
    mode          text NOT NULL CHECK (mode IN ('manual', 'daily', 'weekly', 'above')),
    weekday       integer CHECK (weekday BETWEEN 0 AND 6),
    above_minor   bigint CHECK (above_minor > 0),
    reserve_minor bigint NOT NULL CHECK (reserve_minor >= 0),
    set_by        text NOT NULL,
    set_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, environment, currency)
);

CREATE TABLE settlement (
    merchant_id  bigint NOT NULL REFERENCES merchant,
    id           bigint GENERATED ALWAYS AS IDENTITY,
    environment  text NOT NULL CHECK (environment IN ('sandbox', 'production')),
    currency     text NOT NULL,
    day          date NOT NULL,
    attempt      integer NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    ordered_by   text NOT NULL,
    state        text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paid', 'failed')),
    trx_id       text,
    remark       text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    ended_at     timestamptz,
    PRIMARY KEY (merchant_id, id)
);
-- At most one settlement of a balance is open.
CREATE UNIQUE INDEX settlement_open
    ON settlement (merchant_id, environment, currency) WHERE state = 'open';
-- Each attempt of a day is made once.
CREATE UNIQUE INDEX settlement_attempt
    ON settlement (merchant_id, environment, currency, day, attempt);

-- Users, audit log and approvals ------------------------------------------------------------------

-- A user of the merchants' dashboard or of the administrators' console. Somebody who uses both has
-- two rows, so that signing in to one gives no access to the other.
CREATE TABLE person (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    realm             realm NOT NULL,
    email             text NOT NULL CHECK (email = lower(email)),
    name              text NOT NULL,
    phone             text,
    password_hash     text,  -- null: invited, no password set yet
    console_role      text CHECK (console_role IN ('administrator', 'operations', 'support')),
    status            text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
    totp_sealed       bytea,
    totp_confirmed_at timestamptz,  -- null: the second factor is off or not confirmed
    totp_last_step    bigint,       -- codes of this step or earlier are rejected
    recovery_hashes   bytea[] NOT NULL DEFAULT '{}',
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    last_login_at     timestamptz,
    list_columns      jsonb NOT NULL DEFAULT '{}',  -- the columns that the user chose for lists
    UNIQUE (realm, email),
    CHECK ((realm = 'console') = (console_role IS NOT NULL)),
    CHECK (totp_confirmed_at IS NULL OR totp_sealed IS NOT NULL)
);

CREATE TABLE membership (
    merchant_id bigint NOT NULL REFERENCES merchant,
    person_id   bigint NOT NULL REFERENCES person,
    role        text NOT NULL CHECK (role IN ('owner', 'developer', 'finance', 'viewer')),
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, person_id)
);
CREATE INDEX membership_of_person ON membership (person_id);

CREATE TABLE invitation (
    token_hash  bytea PRIMARY KEY,
    id          bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    realm       realm NOT NULL,
    merchant_id bigint REFERENCES merchant,
    email       text NOT NULL CHECK (email = lower(email)),
    role        text NOT NULL,
    invited_by  bigint REFERENCES person,  -- null: the operator, with the CLI
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz NOT NULL,
    accepted_at timestamptz,
    CHECK ((realm = 'dashboard') = (merchant_id IS NOT NULL))
);
CREATE INDEX invitation_of_merchant ON invitation (merchant_id);

CREATE TABLE password_reset (
    token_hash bytea PRIMARY KEY,
    person_id  bigint NOT NULL REFERENCES person,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz
);
CREATE INDEX password_reset_of_person ON password_reset (person_id);

CREATE TABLE session (
    token_hash    bytea PRIMARY KEY,
    id            bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    person_id     bigint NOT NULL REFERENCES person,
    realm         realm NOT NULL,
    merchant_id   bigint REFERENCES merchant,
    created_at    timestamptz NOT NULL DEFAULT now(),
    seen_at       timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz NOT NULL,
    stepped_up_at timestamptz,
    second_factor boolean NOT NULL,
    address       text NOT NULL,
    user_agent    text NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX session_of_person ON session (person_id);

-- Who changed what. All lines form one chain: each has the hash of the line before.
CREATE TABLE audit (
    id            bigint PRIMARY KEY,
    at            timestamptz NOT NULL,
    actor_kind    text NOT NULL CHECK (actor_kind IN ('person', 'command', 'system')),
    actor_id      bigint,
    actor_name    text NOT NULL,
    actor_realm   text,
    action        text NOT NULL,
    subject       text NOT NULL,
    merchant_id   bigint,
    detail        jsonb NOT NULL,
    previous_hash bytea NOT NULL,
    hash          bytea NOT NULL
);
CREATE INDEX audit_merchant ON audit (merchant_id, id) WHERE merchant_id IS NOT NULL;
CREATE INDEX audit_age ON audit USING brin (at) WITH (autosummarize = on);
CREATE INDEX audit_subject ON audit (subject, id);
CREATE INDEX audit_action ON audit (action, subject, id);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- The last line. Adding a line locks this row; a log that ends earlier has been truncated.
CREATE TABLE audit_head (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    id   bigint NOT NULL,
    hash bytea NOT NULL
);
INSERT INTO audit_head (id, hash) VALUES (0, decode(repeat('00', 32), 'hex'));
CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- Changes that a second administrator must approve. The payload is sealed, because it may contain a
-- provider's credentials, and deleted after the decision; `detail` is for people.
CREATE TABLE approval (
    id             bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    kind           text NOT NULL,
    subject        text NOT NULL,
    merchant_id    bigint,
    detail         jsonb NOT NULL,
    payload_sealed bytea,
    reason         text NOT NULL,
    status         text NOT NULL DEFAULT 'waiting'
                   CHECK (status IN ('waiting', 'approved', 'refused', 'expired')),
    asked_kind     text NOT NULL,
    asked_id       bigint,
    asked_name     text NOT NULL,
    asked_realm    text,
    asked_at       timestamptz NOT NULL DEFAULT now(),
    expires_at     timestamptz NOT NULL DEFAULT now() + interval '7 days',
    decided_kind   text,
    decided_id     bigint,
    decided_name   text,
    decided_realm  text,
    decided_at     timestamptz,
    decision       text,  -- why it was rejected
    CHECK ((status = 'waiting') = (payload_sealed IS NOT NULL))
);
CREATE INDEX approval_waiting ON approval (id) WHERE status = 'waiting';

-- Emails ------------------------------------------------------------------------------------------

-- One event for one recipient. The worker sends one message for one or several of them.
CREATE TABLE mail (
    merchant_id bigint NOT NULL,  -- 0: the platform
    id          bigint GENERATED ALWAYS AS IDENTITY,
    kind        text NOT NULL,
    person_id   bigint,  -- null: not a user
    recipient   text NOT NULL,
    facts       jsonb NOT NULL,  -- empty after sending
    path        text NOT NULL,   -- the page that the email links to; empty after sending
    sealed      bytea,           -- instead of `path`, if it contains a token
    state       text NOT NULL DEFAULT 'waiting'
                CHECK (state IN ('waiting', 'sent', 'failed', 'skipped')),
    message_id  bigint,  -- the email whose job sends the message with this one
    attempts    integer NOT NULL DEFAULT 0,
    last_error  text,
    created_at  timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    PRIMARY KEY (merchant_id, id)
);
CREATE INDEX mail_to_person ON mail (merchant_id, person_id, kind, id);
CREATE INDEX mail_by_id ON mail (id);
CREATE INDEX mail_failed ON mail (id) WHERE state = 'failed';
CREATE INDEX mail_by_age ON mail (created_at);

-- Who wants which kind of email, where it differs from the default.
CREATE TABLE mail_choice (
    merchant_id bigint NOT NULL,  -- for a customer, the merchant; 0 for a user
    holder      text NOT NULL,    -- person:ID, or a customer's address
    kind        text NOT NULL,
    is_on       boolean NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, holder, kind)
);

-- Merchants' dossiers -----------------------------------------------------------------------------

CREATE TABLE dossier (
    merchant_id         bigint PRIMARY KEY REFERENCES merchant,
    state               text NOT NULL DEFAULT 'draft' CHECK (state IN
        ('draft', 'submitted', 'needs_information', 'approved', 'rejected')),
    legal_form          text,
    legal_name          text,
    registration_number text,
    address             text,
    directors           text[] NOT NULL DEFAULT '{}',
    website             text,
    has_no_website      boolean NOT NULL DEFAULT false,
    volume_currency     text,
    volume_minor        bigint,
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE dossier_document (
    merchant_id    bigint NOT NULL REFERENCES dossier,
    id             bigint GENERATED BY DEFAULT AS IDENTITY,
    purpose        text NOT NULL,
    file_name      text NOT NULL,
    media_type     text NOT NULL,
    size_bytes     integer NOT NULL,
    content_sealed bytea NOT NULL,
    uploaded_by    text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, id)
);
-- Encrypted bytes cannot be compressed, and a change of the master key reads only their beginning.
ALTER TABLE dossier_document ALTER content_sealed SET STORAGE EXTERNAL;

CREATE TABLE dossier_event (
    merchant_id bigint NOT NULL REFERENCES dossier,
    id          bigint GENERATED ALWAYS AS IDENTITY,
    state       text NOT NULL,
    note        text NOT NULL DEFAULT '',  -- shown to the merchant
    reason      text NOT NULL DEFAULT '',  -- for administrators only
    by          text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, id)
);

-- The demo shop; empty outside of development mode ------------------------------------------------

-- In the database, because any process may be notified of an order that another one created.
CREATE UNLOGGED TABLE shop_order (
    reference   text PRIMARY KEY,
    article     text NOT NULL,
    trx_id      text NOT NULL,
    payment_url text NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now()
);

CREATE UNLOGGED TABLE shop_news (
    reference text NOT NULL,
    id        text NOT NULL,
    status    text NOT NULL,
    message   text NOT NULL,
    body      text NOT NULL,
    at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (reference, id)
);
