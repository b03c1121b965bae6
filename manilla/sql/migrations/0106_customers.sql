-- Customers of merchants.

CREATE TABLE customer (
    merchant_id bigint NOT NULL,
    id          text NOT NULL,
    environment environment NOT NULL,
    reference   text NOT NULL,  -- the merchant's
    name        text NOT NULL,
    email       text,
    phone       text,
    ipn_url     text NOT NULL DEFAULT '',
    bvn_sealed  bytea,
    nin_sealed  bytea,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz,
    erased_at   timestamptz,  -- when the personal data was erased
    PRIMARY KEY (merchant_id, id),
    UNIQUE (merchant_id, environment, reference),
    CHECK (erased_at IS NULL OR disabled_at IS NOT NULL)
) WITH (fillfactor = 85);
CREATE INDEX customer_time ON customer (id COLLATE "C");  -- as payment_time
CREATE INDEX customer_email ON customer (merchant_id, lower(email)) WHERE email IS NOT NULL;

-- The rights of additional API keys that the previous version does not know.
ALTER TABLE api_key ADD further_rights text[] NOT NULL DEFAULT '{}';
ALTER TABLE api_key DROP CONSTRAINT api_key_rights_check;
ALTER TABLE api_key ADD CONSTRAINT api_key_rights_check CHECK (
    cardinality(rights || further_rights) > 0
    AND rights <@ ARRAY['payments', 'payouts', 'refunds', 'read']
    AND further_rights <@ ARRAY['manage', 'charge']);
