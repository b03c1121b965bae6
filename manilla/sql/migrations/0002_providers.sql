-- Providers' credentials and health, and deposit and withdrawal methods.

INSERT INTO change (topic) VALUES ('providers'), ('rails'), ('methods');

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
