-- Payment links, and the link that a payment was created with.

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

ALTER TABLE payment ADD link_id text;

CREATE INDEX CONCURRENTLY payment_of_link ON payment (merchant_id, link_id, trx_id)
    WHERE link_id IS NOT NULL;
