-- Splits: a payment is divided between its merchant, who is the owner, and other receivers.

ALTER TABLE payment ADD split jsonb;  -- how the payment is divided; null: it is not divided
ALTER TABLE payment_link ADD split jsonb;  -- the rule for the link's payments, or its id

-- A sub-account is a merchant that belongs to another one. Its team includes its parent's team.
ALTER TABLE merchant ADD parent_id bigint;

CREATE FUNCTION copy_team_to_sub_accounts() RETURNS trigger LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        DELETE FROM membership m USING merchant s
         WHERE s.parent_id = OLD.merchant_id AND m.merchant_id = s.id
           AND m.person_id = OLD.person_id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO membership (merchant_id, person_id, role, created_at, approves_from)
        SELECT s.id, NEW.person_id, NEW.role, NEW.created_at, NEW.approves_from
          FROM merchant s WHERE s.parent_id = NEW.merchant_id
            ON CONFLICT (merchant_id, person_id) DO UPDATE
           SET role = excluded.role, approves_from = excluded.approves_from;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER sub_accounts AFTER INSERT OR UPDATE OR DELETE ON membership
    FOR EACH ROW EXECUTE FUNCTION copy_team_to_sub_accounts();

CREATE FUNCTION copy_team_of_parent() RETURNS trigger LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO membership (merchant_id, person_id, role, created_at, approves_from)
    SELECT NEW.id, m.person_id, m.role, m.created_at, m.approves_from
      FROM membership m WHERE m.merchant_id = NEW.parent_id;
    RETURN NULL;
END $$;
CREATE TRIGGER team AFTER UPDATE OF parent_id ON merchant
    FOR EACH ROW WHEN (OLD.parent_id IS NULL AND NEW.parent_id IS NOT NULL)
    EXECUTE FUNCTION copy_team_of_parent();

-- What stops a merchant stops its sub-accounts too.
CREATE FUNCTION copy_status_to_sub_accounts() RETURNS trigger LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE merchant s
       SET status = CASE WHEN s.status = OLD.status OR NEW.status IN ('rejected', 'disabled')
                         THEN NEW.status ELSE s.status END,
           payouts_enabled = CASE WHEN s.payouts_enabled = OLD.payouts_enabled
                                  THEN NEW.payouts_enabled
                                  ELSE s.payouts_enabled AND NEW.payouts_enabled END,
           version = NEW.version, updated_at = now()
     WHERE s.parent_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER sub_accounts AFTER UPDATE OF status, payouts_enabled ON merchant
    FOR EACH ROW
    WHEN (OLD.status <> NEW.status OR OLD.payouts_enabled <> NEW.payouts_enabled)
    EXECUTE FUNCTION copy_status_to_sub_accounts();

-- Each change of a rule is a new version. What is booked refers to its version.
CREATE TABLE split_rule (
    merchant_id bigint NOT NULL,
    id          text NOT NULL,
    version     integer NOT NULL,
    environment environment NOT NULL,
    name        text NOT NULL,
    terms       jsonb NOT NULL,
    status      text NOT NULL CHECK (status IN ('active', 'disabled', 'replaced')),
    is_default  boolean NOT NULL DEFAULT false,  -- whether it divides payments without a split
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, id, version)
);
CREATE UNIQUE INDEX split_rule_current ON split_rule (merchant_id, id)
    WHERE status <> 'replaced';
CREATE UNIQUE INDEX split_rule_default ON split_rule (merchant_id, environment)
    WHERE status = 'active' AND is_default;

-- The merchants that consent to receive shares of another merchant's payments.
CREATE TABLE split_partner (
    merchant_id bigint NOT NULL,  -- the receiver
    owner_id    bigint NOT NULL,
    status      text NOT NULL CHECK (status IN ('invited', 'accepted', 'ended')),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, owner_id)
);
CREATE INDEX split_partner_owner ON split_partner (owner_id);

-- One receiver's share of a paid payment.
CREATE TABLE split (
    merchant_id    bigint NOT NULL,  -- the receiver
    trx_id         text NOT NULL,
    owner_id       bigint NOT NULL,
    payment_trx_id text NOT NULL,
    environment    environment NOT NULL,
    ref_trx        text NOT NULL,  -- the id of the payment
    currency       currency NOT NULL,
    amount_minor   bigint NOT NULL CHECK (amount_minor > 0),
    status         text NOT NULL CHECK (
                   status IN ('held', 'completed', 'short', 'returned')),
    withheld_minor bigint NOT NULL DEFAULT 0 CHECK (withheld_minor >= 0),
    returned_minor bigint NOT NULL DEFAULT 0,  -- what refunds and disputes took back
    short_minor    bigint NOT NULL DEFAULT 0,  -- what of that the receiver still owes the owner
    hold_until     timestamptz,  -- null: until the owner releases the share
    released_at    timestamptz,  -- null: the share is held
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    traceparent    text,
    PRIMARY KEY (merchant_id, trx_id),
    CHECK (returned_minor BETWEEN 0 AND amount_minor),
    CHECK (short_minor BETWEEN 0 AND returned_minor)
) WITH (fillfactor = 85);
CREATE INDEX split_payment ON split (payment_trx_id);
CREATE INDEX split_reference ON split (merchant_id, environment, ref_trx);
CREATE INDEX split_time ON split (trx_id COLLATE "C");  -- as payment_time
CREATE INDEX split_open ON split (merchant_id, environment) WHERE status IN ('held', 'short');
CREATE INDEX split_claimed ON split (owner_id, environment) WHERE status = 'short';

-- The previous version does not divide payments, so it must not credit a payment with a split.
CREATE FUNCTION require_shares() RETURNS trigger LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM split WHERE payment_trx_id = NEW.trx_id) THEN
        RAISE EXCEPTION 'Payment % is credited without its shares.', NEW.trx_id
              USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER require_shares BEFORE UPDATE OF status ON payment
    FOR EACH ROW
    WHEN (NEW.status = 'success' AND OLD.status <> 'success'
          AND jsonb_path_exists(NEW.split, '$.shares[*].minor ? (@ > 0)'))
    EXECUTE FUNCTION require_shares();

CREATE TRIGGER as_accepted
    BEFORE UPDATE OF split ON payment FOR EACH ROW
    WHEN (OLD.split IS DISTINCT FROM NEW.split)
    EXECUTE FUNCTION refuse_to_change_what_was_accepted();

CREATE INDEX CONCURRENTLY merchant_parent ON merchant (parent_id) WHERE parent_id IS NOT NULL;
