-- Providers' statements, and the movements of our clearing accounts that they are matched with.

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
    is_matched          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (merchant_id, provider, line_id)
);
CREATE INDEX statement_line_day ON statement_line (provider, currency, booked_at);
CREATE INDEX statement_line_trx ON statement_line (provider, trx_id);
CREATE INDEX statement_line_open ON statement_line (provider) WHERE NOT is_matched;

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
    is_matched         boolean NOT NULL DEFAULT false,
    PRIMARY KEY (merchant_id, posting_id)
);
CREATE INDEX clearing_movement_day ON clearing_movement (provider, currency, booked_at);
CREATE INDEX clearing_movement_trx ON clearing_movement (provider, trx_id);
CREATE INDEX clearing_movement_open ON clearing_movement (provider) WHERE NOT is_matched;

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
    PRIMARY KEY (provider, currency, day)
);

-- BRIN, because the planner must have no other way to find a posting than by its full key.
CREATE INDEX CONCURRENTLY posting_age ON posting USING brin (posted_at);
