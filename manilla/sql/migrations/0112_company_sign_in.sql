-- Company sign-in (OpenID Connect) and the audit stream.

-- The provider with which a merchant's members or, with merchant 0, the console's users sign in.
CREATE TABLE sign_in_provider (
    merchant_id   bigint PRIMARY KEY,
    key           text NOT NULL UNIQUE,  -- in the URL of the sign-in; it does not reveal the merchant
    issuer        text NOT NULL,
    client_id     text NOT NULL,
    secret_sealed bytea NOT NULL,
    groups_claim  text NOT NULL,
    roles         json NOT NULL,  -- the role of each group, in their order, which jsonb loses
    is_required   boolean NOT NULL,
    break_glass   text NOT NULL,  -- the email address that may still sign in with a password
    updated_at    timestamptz NOT NULL DEFAULT now()
);

-- A user's identity at a provider. An email address is never an identity.
CREATE TABLE company_identity (
    merchant_id  bigint NOT NULL,
    issuer       text NOT NULL,
    subject      text NOT NULL,
    person_id    bigint NOT NULL REFERENCES person,
    -- The role that groups granted, null: the user was connected by themselves.
    granted_role text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, issuer, subject),
    UNIQUE (merchant_id, issuer, person_id)
);
CREATE INDEX company_identity_of_person ON company_identity (person_id);

-- The provider of the session, null: the user signed in with a password.
ALTER TABLE session ADD provider_merchant_id bigint;
ALTER TABLE session ADD provider_session text;  -- the provider's id of its own session

-- Where a security team reads the audit log.
CREATE TABLE audit_target (
    name                 text PRIMARY KEY,
    url                  text NOT NULL,
    authorization_sealed bytea,
    cursor               bigint NOT NULL,  -- the last audit entry that the target has received
    failures             integer NOT NULL DEFAULT 0,
    last_error           text NOT NULL DEFAULT '',
    created_at           timestamptz NOT NULL DEFAULT now(),
    delivered_at         timestamptz
);
