-- Users, their sessions, invitations and password resets.

CREATE DOMAIN realm AS text CHECK (VALUE IN ('dashboard', 'console'));

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
