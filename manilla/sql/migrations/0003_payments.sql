-- Payments, charges and refunds, with jobs, webhooks, notifications and cases.

-- Work that is due now or later. A job is deleted when it is done, so the table stays small. Half
-- of each page stays free, so that claiming all its jobs fits the new row versions into the same
-- page and updates no index.
CREATE SEQUENCE job_fence;  -- unique for every claim, even if a job is deleted and added again
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
) WITH (fillfactor = 50);
CREATE INDEX job_due ON job (kind, due_at) WHERE parked_at IS NULL;

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
    PRIMARY KEY (merchant_id, trx_id),
    UNIQUE (merchant_id, environment, ref_trx),
    CHECK (refunded_minor BETWEEN 0 AND amount_minor),
    CHECK ((status = 'failed') = (error_code IS NOT NULL))
) WITH (fillfactor = 85);

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
    PRIMARY KEY (merchant_id, reference),
    UNIQUE (merchant_id, trx_id, number)
) WITH (fillfactor = 70);

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
    PRIMARY KEY (merchant_id, trx_id)
);
CREATE INDEX refund_payment ON refund (merchant_id, payment_trx_id);

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
    PRIMARY KEY (merchant_id, provider, digest)
);
CREATE INDEX webhook_reference ON webhook (merchant_id, reference);

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
    PRIMARY KEY (merchant_id, id)
);
CREATE INDEX notification_trx ON notification (merchant_id, trx_id);

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
    PRIMARY KEY (merchant_id, id),
    UNIQUE (merchant_id, kind, reference)
);

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON timeline
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_rewrite_the_books();

-- A merchant may own most of the table, and plans must suit the largest one. The planner therefore
-- assumes a single merchant, so that no plan uses the merchant alone when the full key is
-- available: neither after ANALYZE, which would count the merchants, nor before the first ANALYZE,
-- when two indexes look alike.
ALTER TABLE payment ALTER merchant_id SET (n_distinct = 1);
SELECT pg_restore_attribute_stats(
       'schemaname', 'public', 'relname', 'payment', 'attname', 'merchant_id', 'inherited', false,
       'null_frac', 0::real, 'avg_width', 8, 'n_distinct', 1::real);
