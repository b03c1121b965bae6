-- Further API keys of merchants, and the key of each request in the request log.

CREATE TABLE api_key (
    merchant_id   bigint NOT NULL,
    environment   environment NOT NULL,
    number        integer NOT NULL,
    name          text NOT NULL,
    api_key_hash  bytea NOT NULL,
    secret_sealed bytea,  -- null after the key has been revoked or has expired
    rights        text[] NOT NULL
                  CHECK (cardinality(rights) > 0
                         AND rights <@ ARRAY['payments', 'payouts', 'refunds', 'read']),
    networks      text[] NOT NULL,  -- where requests may come from; empty: anywhere
    expires_at    timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    created_by    text NOT NULL,
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    revoked_by    text,
    PRIMARY KEY (merchant_id, environment, number),
    CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);

ALTER TABLE api_request ADD api_key text;  -- the name of the key that made the request
