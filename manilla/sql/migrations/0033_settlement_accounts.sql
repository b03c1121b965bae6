-- The account of each merchant and currency to which its balance is settled.

-- Every account that was ever set. The newest one that was not canceled and has taken effect
-- applies; at most one waits.
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
