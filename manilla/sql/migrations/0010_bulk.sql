-- Payouts created by users: who created them, and bulk payouts from a file.

ALTER TABLE payout ADD COLUMN ordered_by text;  -- the user, in the dashboard; null: through the API

-- A file of bulk payouts. Nothing is paid until a user confirms it.
CREATE TABLE payout_batch (
    merchant_id  bigint NOT NULL,
    id           text NOT NULL,  -- prefix of its rows' references
    environment  environment NOT NULL,
    status       text NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'running', 'done')),
    method_id    integer NOT NULL,
    method_name  text NOT NULL,
    currency     currency NOT NULL,
    file_name    text NOT NULL,
    uploaded_by  text NOT NULL,
    confirmed_by text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    confirmed_at timestamptz,
    ended_at     timestamptz,
    PRIMARY KEY (merchant_id, id),
    CHECK (status = 'draft' OR confirmed_by IS NOT NULL)
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
    PRIMARY KEY (merchant_id, batch_id, number),
    CHECK (state <> 'paid' OR trx_id IS NOT NULL)
);
