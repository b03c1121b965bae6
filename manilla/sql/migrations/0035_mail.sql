-- Emails to users and customers.

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
